#include "process_group.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace {

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace

// [docs:group]
// As torch.distributed.init_process_group("gloo") in Python.
c10::intrusive_ptr<c10d::ProcessGroup> init_process_group() {
  const int rank = std::stoi(variable("RANK", "0")), size = std::stoi(variable("WORLD_SIZE", "1"));
  c10d::TCPStoreOptions where;
  // 0 is any free port, which is enough for one process. torchrun names the port.
  where.port = static_cast<std::uint16_t>(std::stoi(variable("MASTER_PORT", "0")));
  // Under torchrun the store of the launcher exists already.
  where.isServer = rank == 0 && variable("TORCHELASTIC_USE_AGENT_STORE", "") != "True";
  where.numWorkers = size;
  const auto store =
      c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR", "127.0.0.1"), where);
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
  options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  const auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}
// [docs:group end]
