"""Sentences of the documentation are short enough to be read once."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("notebooks/*.md"))]
FIGURES = [*sorted((ROOT / "benchmarks").glob("*.md")), ROOT / "coupledgp" / "MATH.md"]
MOST_WORDS, MOST_ON_AVERAGE = 40, 25

FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"^\s*([*+-]|\d+\.)\s+")
END_OF_SENTENCE = re.compile(r"(?<=[.!?])[)*\"]*\s+(?=[^a-z\s])")
LINK_TARGET = re.compile(r"\]\([^)]*\)")
WORD = re.compile(r"\w")


def passages(text: str) -> list[str]:
    """Paragraphs and list items of a Markdown text, without code blocks, tables and headings."""
    found: list[str] = []
    opened = False
    for line in FENCE.sub("", text).splitlines():
        aside = not line.strip() or line.lstrip().startswith(("|", "#"))
        if aside or ITEM.match(line) or not opened:
            found.append("")
        opened = not aside
        if opened:
            found[-1] += " " + ITEM.sub("", line).strip()
    return [passage.strip() for passage in found if passage.strip()]


def sentences(text: str) -> list[str]:
    """Sentences of a Markdown text, without the targets of links."""
    return [
        sentence
        for passage in passages(text)
        for sentence in END_OF_SENTENCE.split(LINK_TARGET.sub("]", passage))
    ]


def n_words(sentence: str) -> int:
    return sum(map(bool, map(WORD.search, sentence.split())))


def long_sentences(text: str) -> list[str]:
    """Sentences of a Markdown text with more than ``MOST_WORDS`` words."""
    return [sentence for sentence in sentences(text) if n_words(sentence) > MOST_WORDS]


def chains(text: str) -> list[str]:
    """Sentences of a Markdown text with two semicolons or more."""
    return [sentence for sentence in sentences(text) if sentence.count(";") > 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_sentence_of_the_documentation_is_long(page):
    assert long_sentences(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_sentence_of_the_documentation_is_a_chain(page):
    assert chains(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("page", [*PAGES, *FIGURES], ids=lambda page: page.name)
def test_sentences_of_a_page_are_short_on_average(page):
    lengths = [n_words(sentence) for sentence in sentences(page.read_text(encoding="utf-8"))]
    assert sum(lengths) <= MOST_ON_AVERAGE * len(lengths)


def test_a_chain_is_found():
    assert len(chains("One part; another part; a third. A short one; its end.")) == 1


@pytest.mark.parametrize(
    "frame", ["{}", "* {}", "1. {}", "A start. {} An end.", "Short\nlines: {}"]
)
def test_a_long_sentence_is_found(frame):
    sentence = " ".join(["Word"] * (MOST_WORDS + 1)) + "."
    assert len(long_sentences(frame.format(sentence))) == 1


@pytest.mark.parametrize("frame", ["```\n{}\n```", "| {} |", "# {}"])
def test_code_tables_and_headings_are_left_out(frame):
    assert long_sentences(frame.format(" ".join(["word"] * (MOST_WORDS + 1)))) == []


def test_short_sentences_in_a_row_are_not_one_long_sentence():
    assert long_sentences("Ten words make a sentence that nobody has to reread. " * 9) == []
    assert long_sentences("* an item of a list without a full stop\n" * 9) == []
