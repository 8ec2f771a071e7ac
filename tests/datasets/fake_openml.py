"""A server on this machine that imitates OpenML."""

import hashlib
import json


class FakeOpenML:
    """The four pages of OpenML's interface that a download needs, for one data set."""

    def __init__(self, url):
        self.url = url
        self.pages = {}
        self.requests = []
        self.status = 200

    def serve(self, data_id, columns, rows, target):
        """Publish rows; `columns` maps a name to None (numeric) or to its list of categories."""
        kinds = {c: "NUMERIC" if v is None else "{" + ",".join(v) + "}" for c, v in columns.items()}
        lines = ["@RELATION test", *(f"@ATTRIBUTE {c} {k}" for c, k in kinds.items()), "@DATA"]
        arff = "\n".join(lines + [",".join(map(str, row)) for row in rows] + [""]).encode()
        features = [
            {
                "index": str(i),
                "name": c,
                "data_type": "numeric" if v is None else "nominal",
                "is_target": str(c == target).lower(),
                "is_ignore": "false",
                "is_row_identifier": "false",
                "number_of_missing_values": "0",
            }
            for i, (c, v) in enumerate(columns.items())
        ]
        description = {
            "id": str(data_id),
            "name": "test",
            "version": "1",
            "status": "active",
            "format": "ARFF",
            "description": "made for a test",
            "url": f"https://www.openml.org/data/v1/download/{data_id}",
            "file_id": str(data_id),
            "md5_checksum": hashlib.md5(arff).hexdigest(),
        }
        count = {"name": "NumberOfInstances", "value": str(float(len(rows)))}
        pages = {
            f"{data_id}": {"data_set_description": description},
            f"features/{data_id}": {"data_features": {"feature": features}},
            f"qualities/{data_id}": {"data_qualities": {"quality": [count]}},
        }
        self.pages = {f"/api/v1/json/data/{k}": json.dumps(v).encode() for k, v in pages.items()}
        self.pages[f"/data/v1/download/{data_id}"] = arff

    def serve_numbers(self, data_id, rows):
        """Publish numeric columns c0, c1, ... of which the last is the target."""
        names = [f"c{i}" for i in range(rows.shape[1])]
        self.serve(data_id, dict.fromkeys(names), rows.tolist(), names[-1])
