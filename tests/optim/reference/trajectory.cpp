#include "optim/reference/trajectory.h"

#include <random>
#include <set>

namespace jitstep::tests::reference {
namespace {

double uniform(std::mt19937_64& random) {
  return 2 * (static_cast<double>(random() >> 11) * 0x1p-53) - 1;
}

Numbers uniform(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Numbers numbers(count);
  for (double& x : numbers) x = uniform(random);
  return numbers;
}

// torchastic also centralizes the gradients of vectors. apex's FusedLAMB does its own clipping.
Preparation preparation(const std::string& rule, const Options& o) {
  static const std::set<std::string> torchastic = {"compass", "lpf_adamw", "rmsprop"};
  return {rule != "nvlamb",
          torchastic.contains(rule) || (rule == "adamw" && o.is("decay", "step_size"))};
}

}  // namespace

Trajectory::Trajectory(const std::string& rule, nlohmann::json options, bool matrices,
                       std::vector<std::string> inputs)
    : rule_(rule), options_(std::move(options)), inputs_(std::move(inputs)) {
  using Shapes = std::vector<std::vector<std::int64_t>>;
  // SOAP depends on the eigenvectors of the statistics. These are unique for at most one eigenvalue of 0.
  const Shapes any =
      rule == "soap" ? Shapes{{6, 5}, {2}, {2, 3, 4, 5}} : Shapes{{5, 7}, {11}, {2, 3, 4, 5}};
  for (const auto& shape : matrices ? Shapes{{5, 7}, {7, 4}, {1, 3}} : any) {
    std::size_t count = 1;
    for (const std::int64_t size : shape) count *= static_cast<std::size_t>(size);
    Tensor tensor;
    tensor.number = tensors_.size();
    tensor.shape = shape;
    tensor.p = uniform(count, tensors_.size());
    tensors_.push_back(std::move(tensor));
  }
  if (options_.contains("initial_lr") && options_["initial_lr"].is_null())
    options_["initial_lr"] = options_["lr"];
}

bool Trajectory::has_gradient(std::size_t i, int step) const {
  return !(i == 1 && step == 4) && !(i == 2 && step == 1);
}

Numbers Trajectory::input(std::size_t i, const std::string& name, int step) const {
  const std::uint64_t seed = 1000 * static_cast<std::uint64_t>(step) + i + 500 + name.size();
  Numbers values = uniform(tensors_[i].size(), seed);
  for (double& x : values) x = 0.4 * x + 0.3;
  return values;
}

// The gradient of a bowl, plus noise.
std::vector<Numbers> Trajectory::gradients(int step) const {
  std::vector<Numbers> all;
  for (const Tensor& x : tensors_) {
    Numbers g = uniform(x.size(), 1000 * static_cast<std::uint64_t>(step) + x.number);
    for (std::size_t k = 0; k < g.size(); ++k) g[k] = 0.6 * g[k] + 0.5 * (x.p[k] + 0.4);
    all.push_back(std::move(g));
  }
  return all;
}

double Trajectory::lr_at(int step) const {
  return options_.at("lr").get<double>() * (step < kChange ? 1 : 0.6);
}

Options Trajectory::at(int step) const {
  nlohmann::json options = options_;
  options["lr"] = lr_at(step);
  return Options(std::move(options));
}

void Trajectory::step(int step) {
  const Options options = at(step);
  const auto gradient = gradients(step);
  std::vector<Tensor*> stepped;
  for (Tensor& x : tensors_) {
    if (!has_gradient(x.number, step)) continue;
    x.g = gradient[x.number];
    x.inputs.clear();
    for (const std::string& name : inputs_)
      if (has_inputs(x.number, step)) x.inputs[name] = input(x.number, name, step);
    ++x.t;
    stepped.push_back(&x);
  }
  prepare_gradients(options, preparation(rule_, options), stepped);
  rules().at(rule_).step(options, stepped, shared_);
}

Numbers Trajectory::evaluated(std::size_t i) const {
  return rules().at(rule_).evaluated(at(kSteps), tensors_[i]);
}

}  // namespace jitstep::tests::reference
