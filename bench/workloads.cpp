#include "workloads.h"

#include <fstream>
#include <nlohmann/json.hpp>

namespace jitstep::bench {

std::int64_t Workload::elements() const {
  std::int64_t sum = 0;
  for (const auto& shape : shapes) {
    std::int64_t product = 1;
    for (const std::int64_t size : shape) product *= size;
    sum += product;
  }
  return sum;
}

std::vector<Workload> read_workloads(const std::vector<std::string>& names) {
  const auto lists = nlohmann::json::parse(std::ifstream(JITSTEP_BENCH_DIR "/shapes.json"));
  std::vector<Workload> workloads;
  for (const auto& name : names) {
    const auto& list = lists.at(name);
    workloads.push_back({list.at("title"), list.at("shapes")});
  }
  return workloads;
}

}  // namespace jitstep::bench
