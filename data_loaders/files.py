"""Where the graph families' files are: a local folder, or a checked download."""

from __future__ import annotations

import os
from pathlib import Path

from coupledgp.errors import DataNotFoundError

ENVIRONMENT_VARIABLE = "COUPLEDGP_DATA"


def data_folder(data_dir: str | Path | None, family: str) -> Path | None:
    """`<data_dir>/family`, the folder given or named by COUPLEDGP_DATA; None if it is not there."""
    root = data_dir or os.environ.get(ENVIRONMENT_VARIABLE)
    folder = Path(root) / family if root else None
    return folder if folder is not None and folder.is_dir() else None


def download(url: str, sha256: str, filename: str) -> Path:
    """Download to the user's cache, once; a file of another checksum is refused.

    Raises
    ------
    DataNotFoundError
        There is no network, the file is gone, or it is another file; the message says where a
        local copy may go. The cache is then as it was.
    """
    try:
        import pooch
    except ImportError as error:
        raise DataNotFoundError(
            f"{filename}: not on disk, and downloads need pooch (the extra `data`); or put a copy "
            f"of {url} into the family's folder under the one that {ENVIRONMENT_VARIABLE} names"
        ) from error
    try:
        found = pooch.retrieve(
            url, f"sha256:{sha256}", fname=filename, path=pooch.os_cache("coupledgp")
        )
    except (OSError, ValueError) as error:
        raise DataNotFoundError(
            f"{filename}: not on disk, and {url} gave no usable file ({error}); put a copy into "
            f"the family's folder under the one that {ENVIRONMENT_VARIABLE} names"
        ) from error
    return Path(found)
