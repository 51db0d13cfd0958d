// Runs steps of C++ implementations on request. bench/compare.py starts it as a child process. Each line of standard
// input is a request, and each line of standard output is its answer, both as JSON. bench/library_implementations.py has
// the same protocol for Python libraries.
//
//   {"do": "load", "shapes": [...], "dtype": "float32", "threads": 2}   loads weights and gradients; frees old ones
//   {"do": "make", "implementation": {...}}                             see implementations.h; takes the first step
//   {"do": "step", "implementation": 0, "untimed": 1, "timed": 5}       seconds and CPU seconds of one timed step
//   {"do": "unload"}                                                    frees everything
//
// Implementations are numbered from 0.
#include <torch/utils.h>
#include <torch/version.h>

#include <ctime>
#include <iostream>
#include <nlohmann/json.hpp>

#include "implementations.h"
#include "stopwatch.h"

namespace jitstep::bench {
namespace {

using Json = nlohmann::json;

// Copies of the first elements of each parameter, to detect whether a step changes it.
Tensors samples(const Tensors& parameters) {
  Tensors copies;
  for (const auto& p : parameters) copies.push_back(p.detach().flatten().slice(0, 0, 256).clone());
  return copies;
}

int count_changes(const Tensors& before, const Tensors& after) {
  int changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) changed += !before[i].equal(after[i]);
  return changed;
}

class Session {
 public:
  Json answer(const Json& request) {
    const std::string what = request.at("do");
    if (what == "load") return load(request);
    if (what == "make") return make(request.at("implementation"));
    if (what == "step") return step(request);
    if (what == "unload") return unload();
    throw std::invalid_argument("there is no request " + what);
  }

 private:
  Json load(const Json& request) {
    unload();
    torch::set_num_threads(request.at("threads"));
    parameters_ =
        make_parameters(request.at("shapes"), parse_dtype(request.at("dtype")), torch::kCPU);
    double sum = 0;
    for (const auto& p : parameters_)
      sum += p.detach().sum(torch::kDouble).item<double>() +
             p.grad().sum(torch::kDouble).item<double>();
    return {{"sum", sum}, {"threads", torch::get_num_threads()}, {"torch", TORCH_VERSION}};
  }

  Json make(const Json& description) {
    const Tensors before = samples(parameters_);
    Implementation made = make_implementation(description, parameters_);
    made.step();  // one that throws gets no number
    implementations_.push_back(std::move(made));
    return {{"changed", count_changes(before, samples(parameters_))},
            {"dtype", dtype_name(parameters_.at(0).scalar_type())},
            {"state_bytes", implementations_.back().state_bytes}};
  }

  Json step(const Json& request) {
    const Implementation& implementation = implementations_.at(request.at("implementation"));
    for (int i = 0; i < request.at("untimed"); ++i) implementation.step();
    const int timed = request.at("timed");
    const std::clock_t start = std::clock();  // CPU time of all threads
    const double wall = host_seconds(timed, implementation.step);
    const double cpu = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    return {{"seconds", wall / timed}, {"cpu_seconds", cpu / timed}};
  }

  Json unload() {
    implementations_.clear();
    parameters_.clear();
    return Json::object();
  }

  Tensors parameters_;
  std::vector<Implementation> implementations_;
};

}  // namespace
}  // namespace jitstep::bench

int main() {
  using Json = nlohmann::json;
  jitstep::bench::Session session;
  for (std::string line; std::getline(std::cin, line);) {
    Json answer;
    try {
      answer = session.answer(Json::parse(line));
    } catch (const c10::Error& error) {
      answer = {{"error", error.what_without_backtrace()}};
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}
