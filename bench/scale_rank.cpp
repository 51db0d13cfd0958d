// One rank of bench/scale.py: trains with a shared optimizer over gloo and prints its measurements as a line of JSON.
// torchrun's environment variables select the rank: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
#include <jitstep/jitstep.h>
#include <jitstep/sharding.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "stopwatch.h"
#include "workloads.h"

namespace jitstep::bench {
namespace {

using Json = nlohmann::json;
using Tensors = std::vector<torch::Tensor>;
using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

Group init_process_group() {
  const int rank = std::stoi(variable("RANK")), size = std::stoi(variable("WORLD_SIZE"));
  c10d::TCPStoreOptions where;
  where.port = static_cast<std::uint16_t>(std::stoi(variable("MASTER_PORT")));
  where.isServer = rank == 0;
  where.numWorkers = size;
  const auto store = c10::make_intrusive<c10d::TCPStore>(variable("MASTER_ADDR"), where);
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(300));
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(variable("MASTER_ADDR")));
  const auto gloo = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, gloo);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  return group;
}

// torch 2.13 warns about the old name.
template <class Any>
void all_gather(Any& group, torch::Tensor& all, torch::Tensor& mine) {
  if constexpr (requires { group.all_gather_single(all, mine); })
    group.all_gather_single(all, mine)->wait();
  else
    group._allgather_base(all, mine)->wait();
}

void wait_for_all(const Group& group) {
  torch::Tensor mine = torch::zeros({1}, torch::kUInt8);
  torch::Tensor all = torch::zeros({group->getSize()}, torch::kUInt8);
  all_gather(*group, all, mine);
}

// Bytes that all processes have sent over the loopback device.
std::int64_t bytes_on_the_wire() {
  std::ifstream file("/proc/self/net/dev");
  for (std::string line; std::getline(file, line);) {
    const auto name = line.find("lo:");
    if (name == line.npos) continue;
    std::istringstream fields(line.substr(name + 3));
    std::int64_t value = 0;
    for (int field = 0; field < 9; ++field) fields >> value;  // the ninth: bytes sent
    return value;
  }
  return 0;
}

Tensors random_tensors(const Workload& workload, std::uint64_t seed) {
  auto random = at::detail::createCPUGenerator(seed);
  Tensors made;
  for (const auto& shape : workload.shapes) made.push_back(torch::randn(shape, random) * 0.02);
  return made;
}

std::string hash_of(const Tensors& tensors) {
  std::uint64_t hash = 14695981039346656037u;
  for (const torch::Tensor& one : tensors) {
    const torch::Tensor bytes = one.detach().contiguous();
    const auto* const words = static_cast<const std::uint32_t*>(bytes.const_data_ptr());
    for (std::size_t i = 0; i < bytes.nbytes() / 4; ++i) hash = (hash ^ words[i]) * 1099511628211u;
  }
  std::ostringstream text;
  text << std::hex << hash;
  return text.str();
}

// Measures a part of all ranks' work, between two waits for all ranks. The waits are not part of the time.
class Phases {
 public:
  explicit Phases(Group group) : group_(std::move(group)) {}

  void measure(const std::string& name, const std::function<void()>& action) {
    wait_for_all(group_);
    const std::int64_t before = bytes_on_the_wire();
    const double taken = host_seconds(1, action);
    wait_for_all(group_);
    seconds[name].push_back(taken);
    bytes[name].push_back(bytes_on_the_wire() - before);
  }

  std::map<std::string, std::vector<double>> seconds;
  std::map<std::string, std::vector<std::int64_t>> bytes;

 private:
  Group group_;
};

// Exchanges without an optimizer, from which bench/scale_model.py takes latency and bandwidth. Every rank gets so many
// bytes in all.
Json exchanges(const Group& group) {
  Json measured = Json::array();
  const int ranks = group->getSize();
  for (const std::int64_t bytes : {64, 1 << 16, 1 << 20, 1 << 25}) {
    torch::Tensor mine = torch::zeros({bytes / ranks}, torch::kUInt8);
    torch::Tensor all = torch::zeros({bytes / ranks * ranks}, torch::kUInt8);
    std::vector<double> times;
    for (int round = 0; round < 9; ++round) {
      wait_for_all(group);
      times.push_back(host_seconds(1, [&] { all_gather(*group, all, mine); }));
    }
    std::nth_element(times.begin(), times.begin() + 4, times.end());
    measured.push_back({{"bytes", all.numel()}, {"seconds", times[4]}});
  }
  return measured;
}

// Seconds to copy 32 MiB while all ranks do.
double copy_seconds(const Group& group) {
  const torch::Tensor from = torch::ones({1 << 25}, torch::kUInt8), to = torch::zeros_like(from);
  std::vector<double> times;
  for (int round = 0; round < 9; ++round) {
    wait_for_all(group);
    times.push_back(host_seconds(1, [&] { to.copy_(from); }));
  }
  std::nth_element(times.begin(), times.begin() + 4, times.end());
  return times[4];
}

struct Arguments {
  std::string spec = R"({"rule": "adamw"})", workload = "tiny", folder;
  int rounds = 5;
};

Json run(const Arguments& arguments) {
  const Group group = init_process_group();
  const Workload workload = read_workloads({arguments.workload}).front();
  Tensors parameters = random_tensors(workload, 1);
  const Tensors factors = random_tensors(workload, 2);  // become the gradients
  for (torch::Tensor& p : parameters) p.requires_grad_();
  const auto optimizer = Optimizer::from_spec(parameters, arguments.spec);
  if (group->getSize() > 1) optimizer->shard(group);
  constexpr int kUntimed = 2;
  Phases untimed(group), timed(group);
  for (int round = -kUntimed; round < arguments.rounds; ++round) {
    Phases& phases = round < 0 ? untimed : timed;
    phases.measure("backward", [&] {
      optimizer->zero_grad();
      torch::Tensor loss = torch::zeros({});
      for (std::size_t i = 0; i < parameters.size(); ++i)
        loss = loss + (parameters[i] * factors[i]).sum();
      loss.backward();
    });
    phases.measure("average", [&] { average_gradients(parameters, group); });
    phases.measure("step", [&] { optimizer->step(); });
  }
  const std::string hash = hash_of(parameters);
  const std::string file = arguments.folder + "/whole.pt", parts = arguments.folder + "/parts";
  for (int round = 0; !arguments.folder.empty() && round < 3; ++round) {
    timed.measure("save file", [&] { optimizer->save(file); });
    timed.measure("load file", [&] { optimizer->load(file); });
    timed.measure("save parts", [&] { optimizer->save_parts(parts); });
    timed.measure("load parts", [&] { optimizer->load(parts); });
  }
  std::int64_t elements = 0;
  for (const torch::Tensor& p : parameters) elements += p.numel();
  return {{"rank", group->getRank()},
          {"elements", elements},
          {"state_bytes", optimizer->memory_report().state_bytes()},
          {"hash", hash},
          {"seconds", timed.seconds},
          {"wire", timed.bytes},
          {"exchanges", exchanges(group)},
          {"copy_seconds", copy_seconds(group)}};
}

}  // namespace
}  // namespace jitstep::bench

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  CLI::App app("One rank of bench/scale.py");
  jitstep::bench::Arguments arguments;
  app.add_option("--spec", arguments.spec, "The optimizer, as JSON");
  app.add_option("--workload", arguments.workload, "A name in bench/shapes.json");
  app.add_option("--rounds", arguments.rounds, "Timed steps");
  app.add_option("--folder", arguments.folder, "Folder for checkpoints; empty: measure none");
  CLI11_PARSE(app, argc, argv);
  try {
    std::cout << jitstep::bench::run(arguments).dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
