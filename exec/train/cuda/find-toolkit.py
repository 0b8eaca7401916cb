"""find-toolkit.py - finds the parts of CUDA that pipesim builds with: nvcc, and header folder and library of cudart, cublaslt
and nccl. It prints NAME=PATH for each part that it finds.

CUDA_HOME, CUDA_PATH or nvcc on PATH give a toolkit's folder; else it lies at /usr/local/cuda*. Python packages carry the
same libraries under nvidia/ in site-packages, with versioned names only. Each part comes from the first place that has
header and library of one major version."""
import glob
import os
import re
import shutil
import subprocess
import sys

PARTS = {  # header, pattern of its major version, library
    'cudart': ('cuda_runtime_api.h', r'#define CUDART_VERSION\s+(\d+)\d{3}\b', 'libcudart.so'),
    'cublaslt': ('cublasLt.h', None, 'libcublasLt.so'),
    'nccl': ('nccl.h', r'#define NCCL_MAJOR\s+(\d+)', 'libnccl.so'),
}


def site_folders():
    """Package folders of this Python, and of the one on PATH, which may be another."""
    folders = list(sys.path)
    python = shutil.which('python3')
    if python:
        text = subprocess.run([python, '-c', 'import sys; print("\\n".join(sys.path))'], capture_output=True, text=True)
        folders += text.stdout.splitlines()
    return [folder for folder in dict.fromkeys(folders) if folder]


def roots():
    """Folders that may hold bin, include and lib, best first."""
    found = [os.environ.get('CUDA_HOME'), os.environ.get('CUDA_PATH')]
    nvcc = shutil.which('nvcc')
    if nvcc:
        found.append(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
    found += ['/usr/local/cuda'] + sorted(glob.glob('/usr/local/cuda-*'), reverse=True)
    for site in site_folders():
        found += sorted(glob.glob(os.path.join(site, 'nvidia', '*')), reverse=True)
    found += ['/usr/local', '/usr']
    return [root for root in dict.fromkeys(found) if root and os.path.isdir(root)]


def subfolders(root, names):
    candidates = [os.path.join(root, name) for name in names]
    return [folder for folder in candidates if os.path.isdir(folder)]


def include_folders(root):
    return subfolders(root, ['include', 'targets/x86_64-linux/include', 'targets/sbsa-linux/include'])


def library_folders(root):
    return subfolders(root, ['lib64', 'lib', 'targets/x86_64-linux/lib', 'targets/sbsa-linux/lib', 'lib/x86_64-linux-gnu',
                             'lib/aarch64-linux-gnu'])


def major_of_header(folder, header, pattern):
    with open(os.path.join(folder, header), encoding='utf-8', errors='replace') as file:
        match = re.search(pattern, file.read())
    return match and match.group(1)


def find_header(places, header):
    return next((folder for root in places for folder in include_folders(root)
                 if os.path.exists(os.path.join(folder, header))), None)


def libraries(places, name):
    for root in places:
        for folder in library_folders(root):
            yield from sorted(glob.glob(os.path.join(folder, name + '.*')), key=len)
            yield from glob.glob(os.path.join(folder, name))


def find_library(places, name, major):
    """A file whose real name carries that major version; major None: any file."""
    for path in libraries(places, name):
        match = re.search(re.escape(name) + r'\.(\d+)', os.path.realpath(path))
        if major is None or (match and match.group(1) == major):
            return path
    return None


def find_nvcc(places):
    candidates = [os.path.join(root, 'bin', 'nvcc') for root in places]
    return next((path for path in candidates if os.access(path, os.X_OK)), None)


def main():
    places = roots()
    found = {'nvcc': find_nvcc(places)}
    for part, (header, pattern, library) in PARTS.items():
        folder = find_header(places, header)
        if not folder:
            continue
        major = major_of_header(folder, header, pattern) if pattern else None
        path = find_library(places, library, major)
        if path:
            found[part + '_include'] = folder
            found[part + '_library'] = path
    for name, value in found.items():
        if value:
            print(f'{name}={value}')


main()
