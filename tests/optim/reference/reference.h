// A second implementation of every shipped rule, as its source writes it. Plain loops in double precision, element by
// element, share nothing with templates/. The tests compare the rules with these.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace jitstep::tests::reference {

using Numbers = std::vector<double>;

/// Option values by name, in the form of a spec's "options". Null means that an option is not set.
class Options {
 public:
  explicit Options(nlohmann::json values) : values_(std::move(values)) {}

  double number(const std::string& name) const { return values_.at(name).get<double>(); }
  double number(const std::string& name, int i) const {
    return values_.at(name).at(i).get<double>();
  }
  bool on(const std::string& name) const { return values_.at(name).get<bool>(); }
  bool is(const std::string& name, const char* choice) const { return values_.at(name) == choice; }
  bool has(const std::string& name) const { return !values_.at(name).is_null(); }
  const nlohmann::json& json(const std::string& name) const { return values_.at(name); }

 private:
  nlohmann::json values_;
};

/// One parameter, its gradient in this step, and its state.
struct Tensor {
  std::size_t number = 0;           // its index among the parameters
  std::vector<std::int64_t> shape;  // in row order
  Numbers p, g;
  int t = 0;  // its own steps, including this one
  std::map<std::string, Numbers> state;
  std::map<std::string, Numbers> inputs;  // those that the rule gets in this step

  std::size_t size() const { return p.size(); }
  /// One value per element under the name of the rule's slot. It is `initial` before the first step.
  Numbers& slot(const std::string& name, double initial = 0) {
    return stored(name, size(), initial);
  }
  /// One value for the tensor.
  double& scalar(const std::string& name, double initial = 0) {
    return stored(name, 1, initial)[0];
  }
  /// Several values, such as one per row.
  Numbers& stored(const std::string& name, std::size_t count, double initial = 0) {
    return state.try_emplace(name, count, initial).first->second;
  }
};

/// State of the whole optimizer, by name.
using Shared = std::map<std::string, double>;

/// One step of the tensors that have a gradient.
using Step = std::function<void(const Options&, const std::vector<Tensor*>&, Shared&)>;

/// A rule, and its evaluation point if that is not the parameter.
struct Rule {
  Step step;
  std::function<Numbers(const Options&, const Tensor&)> evaluated = nullptr;
};
using Rules = std::map<std::string, Rule>;

/// All rules by name.
const Rules& rules();

/// A rule that steps each tensor independently.
Rule each(void (*step)(const Options&, Tensor&));

// One file per family of rules.
Rules torch_rules();
Rules adam_rules();
Rules cautious_rules();
Rules layerwise_rules();
Rules factored_rules();
Rules orthogonal_rules();
Rules preconditioned_rules();
Rules lookahead_rules();
Rules paper_rules();
Rules shared_rules();

// ---- shared functions ----

double square(double x);
/// Updates an exponential moving average: mean = beta mean + (1 - beta) value.
void average(double& mean, double beta, double value);
/// The root of the sum of squares, and the root of their mean.
double norm(const Numbers& x);
double rms(const Numbers& x);
/// Cautious optimizers, arXiv 2411.16085, as in timm: masks elements that disagree with the gradient.
/// Scales the rest.
Numbers caution(const Numbers& update, const Numbers& g);
/// The factor of weight_decay in decoupled decay: lr, or lr^2 / initial_lr (arXiv 2506.02285, as in timm).
double decay_rate(const Options& o);

/// Differences between rules in the preprocessing of gradients.
struct Preparation {
  bool clips = true;  // false if max_grad_norm is the rule's own option
  bool centralizes_vectors = false;
};
/// Preprocessing of each gradient before the rule: maximize, grad_scale, clipping as by torch's clip_grad_norm_ and
/// centralization (arXiv 2004.01461).
void prepare_gradients(const Options& o, Preparation how, const std::vector<Tensor*>& tensors);

}  // namespace jitstep::tests::reference
