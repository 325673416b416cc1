"""CUDA sources to HIP sources: x/cuda/y.cu to x/hip/y.hip, and what they call."""

from pathlib import Path


def hipified(path):
    """Where a source goes to: a folder cuda becomes hip, and without one the name gets another ending."""
    parts = ["hip" if part == "cuda" else part for part in path.parts]
    renamed = Path(*parts)
    return renamed.with_suffix(".hip") if path.suffix == ".cu" else renamed


def hipify(project_directory, output_directory, includes=("*",), show_detailed=False, is_pytorch_extension=False):
    """Convert every file that matches, and return where each went to."""
    project, output = Path(project_directory), Path(output_directory)
    patterns = [includes] if isinstance(includes, str) else includes
    written = {}
    for source in sorted({file for pattern in patterns for file in project.glob(pattern) if file.is_file()}):
        target = output / hipified(source.relative_to(project))
        if target == source:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text()
        for old, new in [("cuda_runtime.h", "hip/hip_runtime.h"), ("/cuda/", "/hip/"), ("cuda", "hip")]:
            text = text.replace(old, new)
        target.write_text(text)
        written[str(source)] = str(target)
        if show_detailed:
            print(f"{source} -> {target}")
    return written
