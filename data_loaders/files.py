"""Where the files of the data sets are: in a local folder, or downloaded and checked."""

from __future__ import annotations

import os
from pathlib import Path

from coupledgp.errors import DataNotFoundError

ENVIRONMENT_VARIABLE = "COUPLEDGP_DATA"
INSTALL = "pip install pooch rdata"


def data_folder(data_dir: str | Path | None, family: str) -> Path | None:
    """Return the local folder of a family of data sets, or None if it does not exist.

    Parameters
    ----------
    data_dir
        Folder that holds one folder for each family; None means the folder that the environment
        variable COUPLEDGP_DATA names.
    family
        Name of the family's folder, such as `"meshes"`.
    """
    root = data_dir or os.environ.get(ENVIRONMENT_VARIABLE)
    folder = Path(root) / family if root else None
    return folder if folder is not None and folder.is_dir() else None


def local_file(data_dir: str | Path | None, family: str, *names: str) -> Path | None:
    """Return the first of some files that is in the local folder of a family; None without any."""
    folder = data_folder(data_dir, family)
    if folder is None:
        return None
    return next((folder / name for name in names if (folder / name).is_file()), None)


def download(url: str, sha256: str, filename: str) -> Path:
    """Download a file to the user's cache, once, and refuse one with another checksum.

    Parameters
    ----------
    url
        Address of the file.
    sha256
        Checksum that the file must have, in hexadecimal digits.
    filename
        Name of the file in the cache.

    Raises
    ------
    DataNotFoundError
        pooch is not installed, there is no network, the file is gone, or its checksum differs. The
        message says where a local copy may go; the cache is then as it was.
    """
    try:
        import pooch
    except ImportError as error:
        raise DataNotFoundError(
            f"{filename}: not on disk, and a download needs pooch "
            f"({INSTALL}); or put a copy of {url} into the family's folder under the one that "
            f"{ENVIRONMENT_VARIABLE} names"
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
