#include "disassembler.h"

#include <jit/base/elf.h>
#include <jit/base/private_files.h>
#include <jit/base/process.h>
#include <jit/base/scratch.h>
#include <jit/base/text.h>
#include <jit/compiler/nvrtc_library.h>
#include <jitstep/jit/error.h>
#include <jitstep/jit/settings.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

namespace jitstep::tool::inspect {
namespace {

using namespace jitstep::jit;
namespace fs = std::filesystem;

constexpr char kHowToGet[] =
    "SASS needs nvdisasm, which was not found. Run `pip install nvidia-cuda-nvdisasm`, or install "
    "the CUDA toolkit and put it on PATH. `--show ptx` does not need it.";

// NVRTC from PyPI is in site-packages/nvidia/cu13/lib. The disassembler is in the same package or in triton's.
std::vector<fs::path> folders_near_nvrtc() {
  std::string problem;
  const auto nvrtc = find_nvrtc(Settings::from_environment(), 0, problem);
  if (!nvrtc || nvrtc->path.empty()) return {};
  const fs::path package = fs::path(nvrtc->path).parent_path().parent_path();
  const fs::path all = package.parent_path().parent_path();
  return {package / "bin", all / "nvidia/cuda_nvdisasm/bin", all / "triton/backends/nvidia/bin"};
}

std::vector<fs::path> folders() {
  std::vector<fs::path> all;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* const home = ::secure_getenv(name)) all.push_back(fs::path(home) / "bin");
  all.push_back("/usr/local/cuda/bin");
  for (fs::path& folder : folders_near_nvrtc()) all.push_back(std::move(folder));
  return all;
}

}  // namespace

std::string find_nvdisasm() {
  if (std::string found = find_program("nvdisasm", Settings::from_environment().path);
      !found.empty())
    return found;
  for (const fs::path& folder : folders())
    if (std::string found = find_program((folder / "nvdisasm").string(), ""); !found.empty())
      return found;
  throw Error(kHowToGet);
}

std::string disassembled(const Built& built) {
  if (!begins_as_elf(built.binary.image))
    throw Error(str_cat("cannot disassemble for ", to_string(built.target),
                        ": this NVRTC supports only older GPUs and compiled PTX. Use --show ptx."));
  const std::string program = find_nvdisasm();
  const PrivateFolder folder(scratch_folders(Settings::from_environment()));
  const std::string file = folder.path() + "/kernel.cubin";
  if (const auto problem = write_atomically(file, built.binary.image)) throw Error(*problem);
  const Finished run = run_program({program, "-c", file}, "", own_variables());
  if (run.status != 0) throw Error(str_cat(program, " failed: ", run.output));
  return run.output;
}

}  // namespace jitstep::tool::inspect
