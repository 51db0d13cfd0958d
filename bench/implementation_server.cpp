// Steps implementations on request: the child process of bench/compare.py on the C++ side. Each line of its input is a
// request, each line of its output the answer, both JSON; bench/peer_contenders.py is the same for Python.
//
//   {"do": "load", "shapes": [...], "dtype": "float32", "threads": 2}   weights and gradients; drops what was there
//   {"do": "make", "contender": {...}}            see implementations.h; takes its first step. Contenders count from 0.
//   {"do": "step", "contender": 0, "untimed": 1, "timed": 5}            seconds of one timed step, and of its CPU time
//   {"do": "unload"}                                                    gives the memory back
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

// What is looked at to see whether a step changes a parameter.
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
    if (what == "make") return make(request.at("contender"));
    if (what == "step") return step(request);
    if (what == "unload") return unload();
    throw std::invalid_argument("no request " + what);
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
    contenders_.push_back(make_contender(description, parameters_));
    contenders_.back().step();
    return {{"changed", count_changes(before, samples(parameters_))},
            {"dtype", dtype_name(parameters_.at(0).scalar_type())},
            {"state_bytes", contenders_.back().state_bytes}};
  }

  Json step(const Json& request) {
    const Contender& contender = contenders_.at(request.at("contender"));
    for (int i = 0; i < request.at("untimed"); ++i) contender.step();
    const int timed = request.at("timed");
    const std::clock_t start = std::clock();  // of all threads
    const double wall = host_seconds(timed, contender.step);
    const double cpu = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    return {{"seconds", wall / timed}, {"cpu_seconds", cpu / timed}};
  }

  Json unload() {
    contenders_.clear();
    parameters_.clear();
    return Json::object();
  }

  Tensors parameters_;
  std::vector<Contender> contenders_;
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
