// Every shipped rule once more, as its source writes it: plain loops in double precision, one element after
// another, that share nothing with templates/. What a rule computes is held to these.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace jitstep::tests::reference {

using Numbers = std::vector<double>;

/// Option values by name, in the form of a spec's "options"; null where an option is not set.
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

/// One parameter, its gradient in this step, and what is kept of it from step to step.
struct Tensor {
  std::size_t number = 0;           // its place among the parameters
  std::vector<std::int64_t> shape;  // in row order
  Numbers p, g;
  int t = 0;  // its own steps, this one included
  std::map<std::string, Numbers> state;

  std::size_t size() const { return p.size(); }
  /// A value per element under the name of the rule's slot, `initial` before the first step.
  Numbers& slot(const std::string& name, double initial = 0) { return kept(name, size(), initial); }
  /// A value of the whole tensor.
  double& scalar(const std::string& name, double initial = 0) { return kept(name, 1, initial)[0]; }
  /// Some number of values, such as one per row.
  Numbers& kept(const std::string& name, std::size_t count, double initial = 0) {
    return state.try_emplace(name, count, initial).first->second;
  }
};

/// What is kept for the whole optimizer, by name.
using Shared = std::map<std::string, double>;

/// One step of the tensors that have a gradient.
using Step = std::function<void(const Options&, const std::vector<Tensor*>&, Shared&)>;

/// A rule, and the point it is evaluated at where that is not the parameter.
struct Rule {
  Step step;
  std::function<Numbers(const Options&, const Tensor&)> evaluated = nullptr;
};
using Rules = std::map<std::string, Rule>;

/// All rules by name.
const Rules& rules();

/// A rule whose tensors do not know of each other.
Rule each(void (*step)(const Options&, Tensor&));

// The families, each in a file of its own.
Rules torch_rules();
Rules adam_rules();
Rules cautious_rules();
Rules layerwise_rules();
Rules factored_rules();
Rules shared_rules();

// ---- shared pieces

double square(double x);
/// An exponential moving average takes a value: mean = beta mean + (1 - beta) value.
void average(double& mean, double beta, double value);
/// The sum of squares' root, and the same of the mean of squares.
double norm(const Numbers& x);
double rms(const Numbers& x);
/// Cautious optimizers, arXiv 2411.16085, as timm writes them: only what agrees with the gradient, scaled up.
Numbers caution(const Numbers& update, const Numbers& g);
/// What decoupled decay multiplies weight_decay by: lr, or lr^2 / initial_lr (arXiv 2506.02285, as timm has it).
double decay_rate(const Options& o);

/// How rules differ in what their gradients go through.
struct Preparation {
  bool clips = true;  // not where max_grad_norm is an option of the rule's own
  bool centralizes_vectors = false;
};
/// What every gradient goes through before a rule sees it: maximize, grad_scale, clipping as by torch's
/// clip_grad_norm_ and centralization (arXiv 2004.01461).
void prepare_gradients(const Options& o, Preparation how, const std::vector<Tensor*>& tensors);

}  // namespace jitstep::tests::reference
