// Optimizers whose checkpoints the folder has. write.cpp wrote them with an earlier version, so this header uses only
// functions that this version has too.
#pragma once

#include <jitstep/jitstep.h>
#include <torch/types.h>

#include <memory>
#include <string>
#include <vector>

namespace jitstep::tests {

/// An optimizer of two parameters that is saved after step 3. Two more steps follow.
struct CheckpointCase {
  const char* name;     // of the files
  const char* rule;     // "muon": for the matrix, with AdamW for the vector
  const char* options;  // a JSON object
  const char* formats;  // members of a JSON object; may be empty
  bool bfloat16 = false;
  bool eval = false;  // saved in evaluation mode
  double rtol = 0;    // of the parameters after step 5; 0: the same bits
};

inline const CheckpointCase kCheckpointCases[] = {
    {"adamw", "adamw", R"({"lr": 0.01, "weight_decay": 0.1, "amsgrad": true})", ""},
    {"adamw_int8", "adamw", R"({"lr": 0.01})", R"("state": "int8")"},
    {"adamw_int4_factored", "adamw", R"({"lr": 0.01})",
     R"("state": {"m": "int4", "v": "factored"})"},
    {"adamw_split8", "adamw", R"({"lr": 0.01})", R"("state": "int8_softsign", "weights": "split8")",
     true},
    {"sgd_master", "sgd", R"({"lr": 0.1, "momentum": 0.9})",
     R"("state": "bf16", "weights": "master")", true},
    {"lamb16", "lamb16", R"({"lr": 0.01})", ""},
    {"adafactor", "adafactor", R"({"lr": 0.01})", ""},
    {"prodigy", "prodigy", "{}", ""},
    {"schedulefree_sgd", "schedulefree_sgd", R"({"lr": 0.1})", "", false, true},
    // Its matrix products are torch's, whose last bits depend on the processor.
    {"muon_adamw", "muon", "", "", false, false, 1e-5},
};

/// The initial parameters, of 37 elements and 5 x 7. All numbers are multiples of 1/64, so every computer has the same.
inline std::vector<torch::Tensor> checkpoint_parameters(const CheckpointCase& one) {
  const auto values = [&](torch::Tensor like, int first) {
    const auto i = torch::arange(like.numel(), torch::kFloat64) * 29 + first;
    const auto x = (i.remainder(64) - 32) / 64;
    return x.view(like.sizes()).to(one.bfloat16 ? torch::kBFloat16 : torch::kFloat32);
  };
  return {values(torch::empty({37}), 5).set_requires_grad(true),
          values(torch::empty({5, 7}), 11).set_requires_grad(true)};
}

/// Steps number `first` to `last`.
inline void step_checkpoint(Optimizer& optimizer, const std::vector<torch::Tensor>& parameters,
                            int first, int last) {
  for (int t = first; t <= last; ++t) {
    for (const auto& p : parameters) {
      const auto i = torch::arange(p.numel(), torch::kFloat64) * 37 + 101 * t;
      p.mutable_grad() = ((i.remainder(64) - 31.5) / 64).view(p.sizes()).to(p.scalar_type());
    }
    optimizer.step();
  }
}

/// The optimizer. `with_options` false leaves its options at their defaults, as a checkpoint sets them.
inline std::unique_ptr<Optimizer> checkpoint_optimizer(const CheckpointCase& one,
                                                       const std::vector<torch::Tensor>& parameters,
                                                       bool with_options) {
  if (std::string(one.rule) == "muon") {
    MuonOptions muon(with_options ? 0.02 : 1);
    muon.ns_dtype(MuonOptions::IterationDtype::real);
    AdamWOptions adamw(with_options ? 0.01 : 1);
    std::vector<Optimizer::ParamGroup> groups;
    groups.emplace_back(std::vector<torch::Tensor>{parameters[1]}, muon.clone());
    groups.emplace_back(std::vector<torch::Tensor>{parameters[0]}, adamw.clone());
    return std::make_unique<Optimizer>(groups);
  }
  std::string spec = std::string("{\"rule\": \"") + one.rule + "\", \"min_quantized_size\": 0";
  if (with_options) spec += std::string(", \"options\": ") + one.options;
  if (one.formats[0] != '\0') spec += std::string(", ") + one.formats;
  return Optimizer::from_spec(parameters, spec + "}");
}

}  // namespace jitstep::tests
