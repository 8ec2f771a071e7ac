"""Pages, their pictures and tables, and the data of their viewers."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.pages.picture import axes_of, log_axis, number
from coupledgp.diagnostics.pages.pictures import coloured_rivals
from coupledgp.diagnostics.pages.scale import (
    COLOURS,
    MODEL,
    REFERENCE,
    THEME,
    Quantity,
    mean_scale,
    spread_scale,
)
from coupledgp.diagnostics.pages.scene import Scene, thinned
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import ReportTable, Section
from coupledgp.diagnostics.verdicts.quality import name_of
from coupledgp.diagnostics.verdicts.verdict import ADEQUACY, HONESTY, QUALITY, Advice, Verdict
from coupledgp.errors import InvalidInputError
from tests.diagnostics.page_cases import (
    HOSTILE,
    LONG,
    NAMES,
    X,
    field_page,
    mesh_report,
    pages,
    road_map,
    surface_map,
    table_report,
    table_report_model,
)

KINDS = ("table", "mesh", "surface", "roads", "audit")
VOID = {"meta", "img", "br", "input", "link", "hr"}


class Reader(HTMLParser):
    """Reads a page and keeps its tags, attributes and texts; tags have to be closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))


@pytest.mark.parametrize("kind", KINDS)
class TestEveryPage:
    def test_is_well_formed_and_has_each_identifier_once(self, kind):
        found = [attributes["id"] for _, attributes in Reader(pages()[kind]).tags
                 if "id" in attributes]  # fmt: skip
        assert len(found) == len(set(found))

    def test_fetches_nothing(self, kind):
        for tag, attributes in Reader(pages()[kind]).tags:
            for name in ("src", "href", "xlink:href", "action", "data"):
                assert (attributes.get(name) or "#").startswith(("#", "data:")), (tag, attributes)
        assert "default-src 'none'" in pages()[kind]
        assert "@import" not in pages()[kind]
        assert not re.search(r"url\((?!#)", pages()[kind])

    def test_is_small(self, kind):
        assert len(pages()[kind].encode()) < 3e6

    def test_names_are_texts(self, kind):
        tags = Reader(pages()[kind]).tags
        assert not [tag for tag, attributes in tags if tag == "img" or "onerror" in attributes]

    def test_every_colour_is_defined_in_light_and_dark(self, kind):
        page = pages()[kind]
        style = page[page.index("<style>") : page.index("</style>")]
        light, dark = style.split("@media screen and (prefers-color-scheme: dark)")[:2]
        used = set(re.findall(r"var\(--([\w-]+)", page)) - {"tone", "tint"}
        for theme in (light.split("}")[0], dark.split("}")[0]):
            assert used <= set(re.findall(r"--([\w-]+):", theme))

    def test_every_picture_says_what_it_shows(self, kind):
        drawings = [a for _, a in Reader(pages()[kind]).tags if a.get("role") == "img"]
        assert len(drawings) == pages()[kind].count("<svg")
        assert all(len(one["aria-label"]) > 10 for one in drawings)


class TestVerdicts:
    PAGE = Report(
        "T",
        warnings=["614 of 768 rows"],
        verdicts=[
            Verdict(QUALITY, "red", "It loses <to> the mean.", "Rule one."),
            Verdict(HONESTY, "amber", "It holds 42 %.", "Rule two."),
            Verdict(ADEQUACY, "grey", "Unknown.", "No reference."),
        ],
        advice=[Advice("Fit a trend.", 0.25, 0.01), Advice("Wait.", 0.125, None, "estimated")],
        sections=[
            Section("scores", tables=[ReportTable("Scores", ("", "model"), [("RMSE", "1")])])
        ],
    )

    def test_words_stand_beside_colours_in_the_order_of_reading(self):
        page = self.PAGE.to_html()
        order = ["614 of 768", QUALITY, "do not use as it is", "It loses &lt;to&gt; the mean.",
                 "Rule one.", HONESTY, "look at it", ADEQUACY, "not judged", "What to do next",
                 "Fit a trend.", "worth as much as intervals 22 % narrower, measured",
                 "0.25 ± 0.01 nats per point", "Wait.",
                 "worth as much as intervals 12 % narrower, estimated", "Scores"]  # fmt: skip
        places = [page.index(text, page.index("<body>")) for text in order]
        assert places == sorted(places)

    def test_figures_in_words_stand_in_where_there_are_none(self):
        page = Report("T", statements=["The posterior is close."]).to_html()
        assert '<p class="statement">The posterior is close.</p>' in page
        assert "What to do next" not in page


class TestTables:
    TABLE = ReportTable(
        "T", ("figure", "model", "nothing", "remark"),
        [("=cmd()", "-0.14 ± 0.06 (bounds -1e-05 +2e-05)", "", "by solves, as it is large"),
         ("b", "46.8 % ± 2.5 %", "", ""), ("-1", "1e-3", "", "+x")],
    )  # fmt: skip

    def test_no_column_is_empty(self):
        assert self.TABLE.shown().columns == ["figure", "model", "remark"]
        assert "nothing" not in pages()["surface"].split("<body>")[1].split("<script")[0]

    def test_kinds_of_columns(self):
        assert self.TABLE.shown().kinds() == ["name", "number", "text"]

    def test_csv_splits_errors_and_has_no_formula(self):
        rows = list(csv.reader(io.StringIO(self.TABLE.shown().to_csv())))
        assert rows == [
            ["figure", "model", "model ±", "model accuracy", "remark"],
            ["'=cmd()", "-0.14", "0.06", "bounds -1e-05 +2e-05", "by solves, as it is large"],
            ["b", "46.8 %", "2.5 %", "", ""],
            ["-1", "1e-3", "", "", "'+x"],
        ]

    def test_a_report_saves_its_tables(self, tmp_path):
        report = table_report()
        paths = report.save_tables(tmp_path / "new")
        assert [path.stem for path in paths] == list(report.tables())
        assert {"scores", "distance", "differences", "couplings"} <= set(report.tables())
        rows = list(csv.reader(io.StringIO((tmp_path / "new" / "scores.csv").read_text())))
        assert rows[0][:3] == ["", "model", "model ±"]
        rmse = next(row for row in rows if row[0].startswith("RMSE"))
        assert float(rmse[1]) == pytest.approx(report.rmse, rel=1e-3)

    def test_a_reference_has_a_column_only_where_there_is_one(self):
        assert "reference" in table_report().tables()["scores"].columns
        scores = pages()["audit"].split('id="table-scores"')[1].split("</table>")[0]
        assert ">model</th>" in scores
        assert ">reference</th>" not in scores


class TestPictures:
    @pytest.mark.long
    def test_a_report_saves_its_pictures(self, tmp_path):
        report = mesh_report()
        svgs = report.pictures()
        assert next(iter(svgs)) == "map"
        for name, svg in svgs.items():
            assert ElementTree.fromstring(svg).tag.endswith("svg"), name
            assert "var(" not in svg
        written = report.save_pictures(tmp_path)
        assert [path.read_text(encoding="utf-8").strip() for path in written] == [
            svg.strip() for svg in svgs.values()
        ]
        with pytest.raises(InvalidInputError, match="format"):
            report.save_pictures(tmp_path, format="gif")

    def test_png(self, tmp_path):
        page = Report("T", sections=[Section("map", pictures=[road_map().picture])])
        (path,) = page.save_pictures(tmp_path, "png")
        assert path.name == "map.png"
        assert path.read_bytes().startswith(b"\x89PNG")

    def test_the_same_law_gives_the_same_bytes(self):
        assert road_map().picture().svg() == road_map().picture().svg()

    def test_one_colour_for_each_model(self):
        assert len({MODEL, REFERENCE, *COLOURS}) == len(COLOURS) + 2
        assert len({name for name, _ in THEME.values()}) == len(THEME)
        inline = pages()["table"].split('id="picture-couplings-kl"')[1].split("</svg>")[0]
        assert "var(--coupling-0" in inline
        assert "var(--model" not in inline

    @pytest.mark.parametrize("span", [(1.1e-9, 1.9e-9), (3.0, 40.0), (1e-8, 1e3)])
    def test_axes_of_logarithms_have_more_than_one_label(self, span):
        figure, axes = axes_of(4, 3)
        axes.set_yscale("log")
        axes.plot([0, 1], span)
        log_axis(axes.yaxis)
        figure.draw_without_rendering()
        low, high = axes.get_ylim()
        assert 2 <= sum(low <= tick <= high for tick in axes.get_yticks()) <= 9

    def test_numbers_of_axes(self):
        found = [number(value) for value in (0.25, -1500.0, 2e-9, 1e-8, -3.5e12)]
        assert found == ["0.25", "−1500", "2·10⁻⁹", "10⁻⁸", "−3.5·10¹²"]


class TestBeside:
    """The picture of what could be picked instead has the paired differences, turned round."""

    def test_values_and_order(self):
        report = table_report()
        rows = coloured_rivals(report)
        gains = [one.gain for one, _ in rows]
        assert gains == sorted(gains, reverse=True)
        by_name = {one.name: one for one, _ in rows}
        assert by_name["reference"].gain == report.differences["nlpd"]["mean"]
        assert (by_name["reference"], REFERENCE) in rows
        baseline = report.baselines[0]
        drawn = by_name[name_of(baseline)]
        assert drawn.gain == baseline.differences["nlpd"]["mean"]
        assert drawn.standard_error == baseline.differences["nlpd"]["standard_error"]
        assert len({colour for _, colour in rows}) == 2
        assert "picture-beside" in pages()["table"]

    def test_nothing_is_drawn_without_others(self):
        alone = cgp.posterior_report(table_report_model(), X[50:])
        assert "beside" not in alone.pictures()
        assert "rivals" not in alone.tables()


class TestScales:
    def test_a_standard_deviation_starts_at_zero_and_says_that_it_hardly_varies(self):
        scale = spread_scale(np.array([0.98, 1.0, np.nan]))
        assert (scale.low, scale.high) == (0.0, 1.0)
        assert scale.note == "nearly constant: 0.98 to 1"
        assert spread_scale(np.array([0.1, 1.0])).note == ""

    def test_a_mean_that_hardly_varies_has_a_scale_of_its_uncertainty(self):
        flat = mean_scale(np.array([5.0, 5.0001]), np.ones(2))
        assert flat.high - flat.low == pytest.approx(0.1)
        assert "nearly constant" in flat.note
        assert mean_scale(np.array([1.0, 2.0]), np.ones(2)).note == ""
        assert mean_scale(np.zeros(3), np.zeros(3)).high > 0


def scenes(page: str) -> list[dict]:
    found = re.findall(r'<script type="application/json" class="scene">(.*?)</script>', page)
    return [json.loads(text) for text in found]


def array(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


class TestScene:
    def test_data_of_the_viewer_are_those_of_the_law(self):
        law = surface_map()
        (scene,) = scenes(field_page(law))
        places = array(scene["positions"], "<u2").reshape(-1, 3) / 65534
        np.testing.assert_allclose(2 * places - 1, law.vertices, atol=1e-4)
        np.testing.assert_array_equal(array(scene["cells"], "<u2").reshape(-1, 3), law.faces)
        mean, std, error = scene["layers"]
        steps = array(mean["values"], "<u2") / 65534
        np.testing.assert_allclose(mean["low"] + steps * (mean["high"] - mean["low"]), law.mean,
                                   atol=1e-4)  # fmt: skip
        assert std["from"] == 0.0
        assert (array(error["values"], "<u2") == 65535).all()
        assert scene["sensors"]["values"]["mean"] == pytest.approx(law.values, rel=1e-5)
        assert scene["sensors"]["names"][:1] == [NAMES[0]]
        assert len(LONG) > len(scene["sensors"]["names"][1]) == 60

    @pytest.mark.long
    def test_roads_and_faces(self):
        (roads,) = scenes(field_page(road_map()))
        assert array(roads["cells"], "<u2").reshape(-1, 2).tolist() == [
            [0, 1],
            [1, 2],
            [3, 4],
            [5, 6],
        ]
        assert array(roads["layers"][0]["values"], "<u2").tolist() == [0, 0, 32767, 65534]
        (faces,) = scenes(mesh_report().to_html())
        assert faces["at_cells"]
        assert len(array(faces["layers"][0]["values"], "<u2")) == 320
        assert faces["sensors"]["names"][1] == "observed node 9"

    @pytest.mark.parametrize("at_cells", [False, True])
    def test_large_meshes_are_thinned_and_say_so(self, at_cells):
        grid = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 200)]), axis=-1).reshape(-1, 2)
        places = np.pad(grid, ((0, 0), (0, 1)))
        corner = np.arange(39800)[np.arange(39800) % 200 < 199]
        faces = np.concatenate([np.stack([corner, corner + 1, corner + 200], 1),
                                np.stack([corner + 1, corner + 201, corner + 200], 1)])  # fmt: skip
        values = places[faces].mean(axis=1)[:, 0] if at_cells else places[:, 0]
        quantity = Quantity("mean", "mean", values, mean_scale(values, values))
        scene = thinned(Scene("faces", places, faces, at_cells, [quantity]), 100_000)
        assert scene.n_bytes <= 100_000
        assert 3000 < len(scene.cells) < len(faces)
        assert scene.note == (
            f"This view is simplified to {len(scene.cells)} of {len(faces)} faces; figures use "
            "them all."
        )
        law, x = scene.quantities[0].values, scene.positions[:, 0]
        expected = x[scene.cells].mean(axis=1) if at_cells else x
        np.testing.assert_allclose(law, expected, atol=0.03)

    def test_hostile_meshes(self):
        """Corners nowhere, faces of one point, huge coordinates, values that are unknown."""
        places = 1e12 + np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [np.nan, 0, 0], [5, 5, 5.0]])
        faces = np.array([[0, 1, 2], [0, 0, 0], [0, 1, 3]])
        values = np.full(5, np.nan)
        quantity = Quantity("mean", HOSTILE, values, mean_scale(values, np.ones(5)))
        found = Scene("faces", places, faces, False, [quantity]).to_dict()
        assert array(found["cells"], "<u2").tolist() == [0, 1, 2, 0, 0, 0]
        assert (array(found["layers"][0]["values"], "<u2") == 65535).all()
        json.dumps(found, allow_nan=False)
