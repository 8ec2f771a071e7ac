"""`coupledgp demo`."""

import json

from coupledgp.cli.commands import demo_field, demo_pages, demo_study


def test_demo_writes_both_reports(tmp_path, call, monkeypatch):
    monkeypatch.setattr(demo_study, "COUPLINGS", ("iid", "posterior"))
    monkeypatch.setattr(demo_study, "SIZES", (4, 40))
    monkeypatch.setattr(demo_pages, "SIZES", (16, 64))
    monkeypatch.setattr(demo_pages, "COUPLINGS", ("iid", "orthogonal+pnc"))
    monkeypatch.setattr(demo_pages, "TABLE_DRAWS", 2)
    monkeypatch.setattr(demo_pages, "WALKERS", ("iid", "stratified+systematic"))
    monkeypatch.setattr(demo_pages, "MESH_DRAWS", 2)
    monkeypatch.setattr(demo_pages, "OBSERVED", 200)
    monkeypatch.setattr(demo_pages, "COMPARED", 150)
    folder = tmp_path / "new" / "folder"
    out = call("demo", "--output", folder, "--n-seeds", 2)
    result = json.loads((folder / "report.json").read_text())
    page = (folder / "report.html").read_text()
    kl = {}
    for row in result["rows"]:
        kl[row["coupling"], row["n_frequencies"]] = row["kl_per_point"]["mean"]
        assert row["kl_per_point"]["standard_error"] > 0
    assert set(kl) == {(c, m) for c in demo_study.COUPLINGS for m in (4, 40)}
    for coupling in demo_study.COUPLINGS:
        assert coupling in out
        assert coupling in page
        assert kl[coupling, 40] < kl[coupling, 4]
    assert f"are {kl['iid', 40] / kl['posterior', 40]:.0f} times as close" in page
    assert kl["posterior", 40] < 0.2 * kl["iid", 40]
    expected = {(r["coupling"], r["n_frequencies"]): r["expected_kl_per_point"]
                for r in result["rows"]}  # fmt: skip
    assert 0.2 < kl["iid", 40] / expected["iid", 40] < 5
    assert "by the number of frequencies" in page
    assert result["exact"]["rmse"] < 25  # the noise is 20
    for name, couplings in (
        ("posterior-table", demo_pages.COUPLINGS),
        ("posterior-mesh", demo_pages.WALKERS),
    ):
        assert f'href="{name}.html"' in page
        report = json.loads((folder / f"{name}.json").read_text())
        further = (folder / f"{name}.html").read_text()
        assert all(one["sentence"] in further for one in report["verdicts"])
        assert report["study"]["verdict"] in further
        assert 0 < report["kl_per_point"] < 0.1
        kl = {(r["coupling"], r["size"]): r["kl_per_point"]["mean"]
              for r in report["study"]["rows"]}  # fmt: skip
        assert {coupling for coupling, _ in kl} == set(couplings)
        largest = max(size for _, size in kl)
        assert kl[couplings[-1], largest] < kl["iid", largest]
    assert "target minus mean" in further
    names = [
        f"{name}.{ending}"
        for name in ("report", "posterior-table", "posterior-mesh", "field")
        for ending in ("html", "json")
    ]
    written = sorted(path.name for path in folder.iterdir())
    assert written == sorted([*names, "field-sensors.csv", "field.ply"])
    rows = json.loads((folder / "field.json").read_text())["baselines"]["rows"]
    errors = {row["name"]: row["rmse"] for row in rows}
    assert errors["model"] < 0.5 * errors["nearest"]


def test_demo_json(tmp_path, call, monkeypatch):
    monkeypatch.setattr(demo_study, "COUPLINGS", ("iid",))
    monkeypatch.setattr(demo_study, "SIZES", (4,))
    for one in ("write", "table_report", "mesh_report"):
        monkeypatch.setattr(demo_pages, one, lambda *given: None)
    monkeypatch.setattr(demo_field, "write_field", lambda *paths: None)
    out = call("demo", "-o", tmp_path, "--n-seeds", 1, "--json")
    assert out == (tmp_path / "report.json").read_text()
    assert json.loads(out)["rows"][0]["kl_per_point"]["standard_error"] == 0
