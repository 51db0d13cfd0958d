# Finds LibTorch, a CPU or a CUDA build, and defines LibTorch::LibTorch.
#
# It does not use torch's own TorchConfig.cmake, which requires a CUDA toolkit for a CUDA build. jitstep needs none. The
# search order, each variable before its environment variable:
#   Torch_DIR          <LibTorch>/share/cmake/Torch, or <LibTorch>. If it is set, nothing else is searched
#   CMAKE_PREFIX_PATH  a LibTorch folder, its share/cmake, a Python environment, or its site-packages
#   LibTorch_HINTS     the same kinds of folders, which the including project sets
#
# Result: LibTorch_FOUND, LibTorch_ROOT, LibTorch_VERSION, LibTorch_CUDA (the build has a CUDA part).

# Appends the folders of LibTorch that `prefix` may refer to, to `roots` of the caller.
function(_libtorch_append_roots prefix)
  file(GLOB site_packages "${prefix}/lib/python3*/site-packages/torch")
  foreach(candidate "${prefix}" "${prefix}/../.." "${prefix}/../../.." "${prefix}/torch"
                    "${prefix}/libtorch" ${site_packages})
    get_filename_component(candidate "${candidate}" ABSOLUTE)
    list(APPEND roots "${candidate}")
  endforeach()
  set(roots "${roots}" PARENT_SCOPE)
endfunction()

function(_libtorch_find_root)
  string(REPLACE ":" ";" environment_prefixes "$ENV{CMAKE_PREFIX_PATH}")
  set(roots "")
  set(looked "")
  set(prefixes ${CMAKE_PREFIX_PATH} ${environment_prefixes} ${LibTorch_HINTS})
  if(Torch_DIR)
    set(prefixes "${Torch_DIR}")
  elseif(DEFINED ENV{Torch_DIR})
    set(prefixes "$ENV{Torch_DIR}")
  endif()
  foreach(prefix IN LISTS prefixes)
    if(prefix)
      list(APPEND looked "${prefix}")
      _libtorch_append_roots("${prefix}")
    endif()
  endforeach()
  set(LibTorch_LOOKED "${looked}" PARENT_SCOPE)
  set(LibTorch_ROOT "" PARENT_SCOPE)
  foreach(root IN LISTS roots)
    if(EXISTS "${root}/include/torch/csrc/api/include/torch/torch.h")
      foreach(folder lib lib64 "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
        if(EXISTS "${root}/${folder}/libtorch.so" AND EXISTS "${root}/${folder}/libtorch_cpu.so")
          set(LibTorch_ROOT "${root}" PARENT_SCOPE)
          set(LibTorch_LIBRARY_DIR "${root}/${folder}" PARENT_SCOPE)
          return()
        endif()
      endforeach()
    endif()
  endforeach()
endfunction()

# Reads the version from the header that defines it, which moved in 2.10. Empty if there is none.
function(_libtorch_read_version)
  set(version "")
  foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
    set(header "${LibTorch_ROOT}/include/${header}")
    if(EXISTS "${header}" AND NOT version)
      file(STRINGS "${header}" lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
      list(TRANSFORM lines REPLACE ".*TORCH_VERSION_[A-Z]+ +([0-9]+).*" "\\1")
      list(JOIN lines "." version)
    endif()
  endforeach()
  set(LibTorch_VERSION "${version}" PARENT_SCOPE)
endfunction()

# Old builds may use the old ABI of std::string. Their TorchConfig.cmake then defines it.
function(_libtorch_read_abi)
  set(LibTorch_CXX11_ABI 1 PARENT_SCOPE)
  set(config "${LibTorch_ROOT}/share/cmake/Torch/TorchConfig.cmake")
  if(EXISTS "${config}")
    file(STRINGS "${config}" lines REGEX "_GLIBCXX_USE_CXX11_ABI=0")
    if(lines)
      set(LibTorch_CXX11_ABI 0 PARENT_SCOPE)
    endif()
  endif()
endfunction()

function(_libtorch_define_targets)
  set(dir "${LibTorch_LIBRARY_DIR}")
  foreach(name c10 torch_cpu)
    add_library(LibTorch::${name} SHARED IMPORTED GLOBAL)
    set_target_properties(LibTorch::${name} PROPERTIES
      IMPORTED_LOCATION "${dir}/lib${name}.so" IMPORTED_NO_SONAME OFF)
  endforeach()
  add_library(LibTorch::LibTorch INTERFACE IMPORTED GLOBAL)
  set_target_properties(LibTorch::LibTorch PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES
      "${LibTorch_ROOT}/include;${LibTorch_ROOT}/include/torch/csrc/api/include"
    INTERFACE_COMPILE_DEFINITIONS "_GLIBCXX_USE_CXX11_ABI=${LibTorch_CXX11_ABI}"
    # libtorch.so has no symbols, but it loads the CUDA part of a CUDA build. That part finds its libraries at run time,
    # so the linker may ignore them. Missing symbols of object files are still errors in programs, and in libraries
    # linked with -z defs. CMake may move items apart, so flags and path are one item. CMake does not quote it.
    INTERFACE_LINK_LIBRARIES
      "-Wl,--push-state,--no-as-needed \"${dir}/libtorch.so\" -Wl,--pop-state;LibTorch::torch_cpu;LibTorch::c10"
    INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined")
endfunction()

_libtorch_find_root()
if(LibTorch_ROOT)
  _libtorch_read_version()
  _libtorch_read_abi()
  set(LibTorch_CUDA OFF)
  if(EXISTS "${LibTorch_LIBRARY_DIR}/libtorch_cuda.so")
    set(LibTorch_CUDA ON)
  endif()
  if(NOT TARGET LibTorch::LibTorch)
    _libtorch_define_targets()
  endif()
endif()

list(JOIN LibTorch_LOOKED "\n    " _libtorch_looked)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_ROOT
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "
  No folder with include/torch/csrc/api/include/torch/torch.h and lib/libtorch.so was found in
    ${_libtorch_looked}
  Run tools/setup.sh of jitstep, which installs PyTorch in .deps/venv. Or name an existing LibTorch:
  -DTorch_DIR=<LibTorch>/share/cmake/Torch or -DCMAKE_PREFIX_PATH=<LibTorch>.
")
