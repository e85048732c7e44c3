"""release/check_dist.py holds a source distribution to what MANIFEST.in says."""

import tarfile

from release import check_dist


def test_tests_in_a_source_distribution_are_told_as_they_cannot_run_there(tmp_path):
    path = tmp_path / "memgrow-1.0.tar.gz"
    files = [*check_dist.NEEDED, *(f"src/{name}" for name in check_dist.package_files())]

    def told(*further):
        with tarfile.open(path, "w:gz") as archive:
            for name in [*files, *further]:
                archive.addfile(tarfile.TarInfo(f"memgrow-1.0/{name}"))
        return list(check_dist.check_sdist(path))

    assert told() == []
    (said,) = told("tests/test_case.py")
    assert said.startswith("memgrow-1.0.tar.gz has tests/test_case.py, but the tests need the whole repository")
