"""Extension modules against this PyTorch: C++ by CXX and GPU sources by hipcc, all of it by one ninja file."""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext

from .hipify import hipify_python

TORCH = Path(__file__).absolute().parent.parent
_rocm = Path(os.environ.get("ROCM_HOME") or os.environ.get("ROCM_PATH") or "/opt/rocm")
ROCM_HOME = str(_rocm) if _rocm.is_dir() else None
CUDA_HOME = None
IS_HIP_EXTENSION = ROCM_HOME is not None

GPU_SUFFIXES = (".cu", ".hip")
COMMON_HIP_FLAGS = ["-fPIC", "-D__HIP_PLATFORM_AMD__=1", "-DUSE_ROCM=1", "-DHIPBLAS_V2"]


def include_paths(device_type="cpu"):
    gpu = [str(Path(ROCM_HOME, "include"))] if device_type == "cuda" and ROCM_HOME else []
    return [str(TORCH / "include"), *gpu]


def library_paths(device_type="cpu"):
    gpu = [str(Path(ROCM_HOME, "lib"))] if device_type == "cuda" and ROCM_HOME else []
    return [str(TORCH / "lib"), *gpu]


def CppExtension(name, sources, *args, **kwargs):
    return _extension(name, sources, args, kwargs, "cpu", ["torch_cpu"])


def CUDAExtension(name, sources, *args, **kwargs):
    sources = [_hipified(source) if str(source).endswith(".cu") else str(source) for source in sources]
    return _extension(name, sources, args, kwargs, "cuda", ["torch_cpu", "torch_hip"])


def _hipified(source):
    folder = Path.cwd()
    path = Path(source)
    relative = path.relative_to(folder) if path.is_absolute() else path
    hipify_python.hipify(folder, folder, includes=[str(relative)], is_pytorch_extension=True)
    return str(hipify_python.hipified(relative))


def _extension(name, sources, args, kwargs, device_type, libraries):
    kwargs["include_dirs"] = [*map(str, kwargs.get("include_dirs", [])), *include_paths(device_type)]
    kwargs["library_dirs"] = [*map(str, kwargs.get("library_dirs", [])), *library_paths(device_type)]
    kwargs["libraries"] = [*kwargs.get("libraries", []), *libraries]
    kwargs["language"] = "c++"
    return Extension(name, [str(source) for source in sources], *args, **kwargs)


def _offload_flags(given):
    if any(flag.startswith("--offload-arch=") for flag in given):
        return []
    return [
        f"--offload-arch={name}"
        for name in os.environ.get("PYTORCH_ROCM_ARCH", "").replace(" ", ";").split(";")
        if name
    ]


class BuildExtension(build_ext):
    """Compiles each extension's sources side by side, at most MAX_JOBS at once."""

    @classmethod
    def with_options(cls, **options):
        class Configured(cls):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **{**options, **kwargs})

        return Configured

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **{name: kwargs[name] for name in kwargs if name != "use_ninja"})

    def build_extension(self, ext):
        folder = Path(self.build_temp, ext.name).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        objects = {
            str(folder / f"{source.replace('/', '_')}.o"): str(Path(source).absolute()) for source in ext.sources
        }
        (folder / "build.ninja").write_text(self._ninja_file(ext, objects))
        jobs = ["-j", os.environ["MAX_JOBS"]] if os.environ.get("MAX_JOBS") else []
        subprocess.check_call(["ninja", "-v", *jobs], cwd=folder)

        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        cxx = shlex.split(os.environ.get("CXX", "c++"))
        libraries = [f"-L{path}" for path in ext.library_dirs] + [f"-l{name}" for name in ext.libraries]
        subprocess.check_call([*cxx, "-shared", *objects, *libraries, *ext.extra_link_args, "-o", target])

    def _ninja_file(self, ext, objects):
        given = ext.extra_compile_args
        cxx_flags, gpu_flags = (
            (given.get("cxx", []), given.get("nvcc", [])) if isinstance(given, dict) else (given, given)
        )
        macros = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in ext.define_macros]
        includes = [f"-I{Path(path).absolute()}" for path in [*ext.include_dirs, sysconfig.get_path("include")]]
        common = [*includes, *macros, f"-DTORCH_EXTENSION_NAME={ext.name.rpartition('.')[2]}"]
        cxx = ["-fPIC", "-O2", "-std=c++20", *common, *cxx_flags]
        hip = [*COMMON_HIP_FLAGS, "-O3", "-std=c++20", *common, *gpu_flags, *_offload_flags(gpu_flags)]
        lines = [
            f"rule cxx\n  command = {os.environ.get('CXX', 'c++')} -c $in -o $out {_ninja_arguments(cxx)}",
            f"rule hip\n  command = {ROCM_HOME}/bin/hipcc -c $in -o $out {_ninja_arguments(hip)}",
            *(
                f"build {output}: {'hip' if source.endswith(GPU_SUFFIXES) else 'cxx'} {source}"
                for output, source in objects.items()
            ),
        ]
        return "\n".join(lines) + "\n"


def _ninja_arguments(arguments):
    return shlex.join(arguments).replace("$", "$$")
