from pathlib import Path

cmake_prefix_path = str(Path(__file__).absolute().parent.parent / "share/cmake")
