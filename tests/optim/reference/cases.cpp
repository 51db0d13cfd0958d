#include "optim/reference/cases.h"

namespace jitstep::tests::reference {
namespace {

constexpr const char* kMoved = R"({
"adabelief": [
  {"lr": 0.02, "betas": [0.7, 0.9], "eps": 0.01, "weight_decay": 0.1, "n_sma_threshold": 6,
   "rectify": true, "fixed_decay": true, "adam_debias": true},
  {"lr": 0.02, "betas": [0.7, 0.9], "eps": 0.01, "weight_decay": 0.1,
   "rectify": true, "weight_decouple": false, "degenerated_to_sgd": false},
  {"lr": 0.02, "betas": [0.7, 0.5], "eps": 0.001, "weight_decay": 0.1, "ams_bound": true}],
"adadelta": [{"lr": 0.7, "rho": 0.8, "eps": 0.01, "weight_decay": 0.1}],
"adafactor": [{"lr": 0.3, "beta2_decay": -0.6, "eps": [0.15, 0.6], "d": 1.1, "weight_decay": 0.1},
  {"lr": 0.3, "beta2_decay": -0.6}],
"adagrad": [{"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.3, "eps": 0.05}],
"adam": [
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.01, "weight_decay": 0.1, "amsgrad": true},
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.01, "weight_decay": 0.1}],
"adam_atan2": [
  {"lr": 0.02, "betas": [0.7, 0.6], "weight_decay": 0.1, "regen_reg_rate": 0.3, "cautious_factor": 0.4, "a": 0.8,
   "b": 1.7, "initial_lr": 0.05, "decoupled_wd": true, "cautious_wd": true},
  {"lr": 0.02, "betas": [0.7, 0.6], "weight_decay": 0.1},
  {"lr": 0.02, "betas": [0.7, 0.6], "regen_reg_rate": 0.3}],
"adahessian": [
  {"lr": 0.02, "betas": [0.7, 0.8], "hessian_power": 0.8, "eps": 0.05, "weight_decay": 0.1, "fixed_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.1}],
"adam_mini": [
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.01, "weight_decay": 0.2, "partition": "whole"},
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.01, "weight_decay": 0.2, "partition": "output"},
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.01, "weight_decay": 0.2, "partition": "element"}],
"adamp": [
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.02, "weight_decay": 0.1, "delta": 1.8, "wd_ratio": 0.4,
   "nesterov": true, "fixed_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.6], "weight_decay": 0.1, "delta": 5},
  {"lr": 0.02, "betas": [0.7, 0.6], "weight_decay": 0.1}],
"adamax": [{"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.05, "weight_decay": 0.1}],
"adamuon": [
  {"lr": 0.05, "weight_decay": 0.2, "betas": [0.8, 0.7], "ns_coefficients": [3, -4, 1.5], "eps": 0.3, "ns_steps": 3,
   "ns_eps": 1.7, "sign": false, "nesterov": true, "bias_correction": true, "ns_dtype": "real", "max_grad_norm": 1.4},
  {"lr": 0.05, "betas": [0.8, 0.7], "ns_dtype": "real"},
  {"lr": 0.05, "betas": [0.8, 0.7], "sign": false, "ns_dtype": "bf16"}],
"adamw": [
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.01, "weight_decay": 0.1, "clipping_threshold": 0.8, "initial_lr": 0.05,
   "amsgrad": true, "decay": "step_size", "caution": true, "corrected_weight_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.6], "weight_decay": 0.2, "decay": "after", "clipping_threshold": 0.8},
  {"lr": 0.02, "betas": [0.7, 0.6], "weight_decay": 0.2, "clipping_threshold": 0.8, "amsgrad": true,
   "decay": "before", "caution": true, "corrected_weight_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.6], "weight_decay": 0.2}],
"adamw_bf16": [{"lr": 0.05, "preheat_steps": 4, "decay_power": -0.7, "betas": [0.7, 0.8], "eps": 0.01,
   "weight_decay": 0.05, "initial_accumulated_decay": [0.001, 0.002, 0.004]},
  {"lr": 0.05, "preheat_steps": 4, "weight_decay": 0.05}],
"adan": [
  {"lr": 0.02, "betas": [0.9, 0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "no_prox": true, "caution": true},
  {"lr": 0.02, "betas": [0.9, 0.7, 0.8], "weight_decay": 0.1}],
"ademamix": [
  {"lr": 0.02, "betas": [0.7, 0.8, 0.95], "alpha": 3, "eps": 0.01, "weight_decay": 0.1, "t_alpha": 6, "t_beta3": 5,
   "decay": "after"},
  {"lr": 0.02, "betas": [0.7, 0.8, 0.95], "alpha": 3, "weight_decay": 0.1, "decay": "before"}],
"adopt": [
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.2, "clip_exp": 0.2, "weight_decay": 0.1, "initial_lr": 0.05,
   "decoupled": true, "caution": true, "corrected_weight_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "clip_exp": null, "weight_decay": 0.1},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.1, "decoupled": true, "corrected_weight_decay": true}],
"amos": [
  {"lr": 0.2, "beta": 0.8, "momentum": 0.6, "extra_l2": 0.05, "c_coef": 0.7, "d_coef": 0.8, "eps": 0.01},
  {"lr": 0.2, "beta": 0.8}],
"asgd": [{"lr": 0.05, "lambd": 0.2, "alpha": 0.6, "t0": 2, "weight_decay": 0.1}],
"came": [
  {"lr": 0.01, "betas": [0.7, 0.8, 0.9], "weight_decay": 0.1, "clip_threshold": 0.7, "eps1": 0.001, "eps2": 0.01,
   "fixed_decay": true},
  {"lr": 0.01, "betas": [0.7, 0.8, 0.9], "weight_decay": 0.1, "weight_decouple": false},
  {"lr": 0.01, "betas": [0.7, 0.8, 0.9], "weight_decay": 0.1}],
"compass": [{"lr": 0.002, "betas": [0.7, 0.8], "amp_fac": 3, "eps": 0.01, "weight_decay": 0.1}],
"dadapt_adam": [
  {"lr": 0.8, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "d0": 0.002, "growth_rate": 1.08,
   "decouple": true, "use_bias_correction": true},
  {"lr": 0.8, "betas": [0.7, 0.8], "weight_decay": 0.1, "d0": 0.002}],
"fromage": [{"lr": 0.1, "p_bound": 1.01}, {"lr": 0.1}],
"grams": [{"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.01, "weight_decay": 0.1}],
"lamb": [
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "weight_norm_max": 2, "bias_correction": false},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "adapt": false}],
"lamb16": [
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.03, "weight_decay": 0.1, "trust_scale": 0.6, "form": "original"},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.03, "weight_decay": 0.1, "trust_scale": 0.6, "form": "corrected"},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.03, "weight_decay": 0.1, "adapt": false}],
"laprop": [
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "initial_lr": 0.05, "caution": true,
   "corrected_weight_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.1},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.1, "corrected_weight_decay": true}],
"larc": [
  {"lr": 0.05, "momentum": 0.6, "weight_decay": 0.1, "trust_coefficient": 0.01, "eps": 0.05},
  {"lr": 0.05, "momentum": 0, "weight_decay": 0.1, "trust_coefficient": 0.01, "eps": 0.05, "clip": false},
  {"lr": 0.05, "momentum": 0.6, "weight_decay": 0.1, "adapt": false}],
"lars": [
  {"lr": 0.5, "momentum": 0.6, "weight_decay": 0.1, "trust_coefficient": 0.02, "eps": 0.05, "nesterov": true},
  {"lr": 0.5, "momentum": 0.6, "weight_decay": 0.1, "trust_coefficient": 0.02, "eps": 0.05,
   "momentum_form": "popular", "trust_norm": "combined", "nesterov": true},
  {"lr": 0.5, "momentum": 0.6, "weight_decay": 0.1, "trust_coefficient": 0.02, "eps": 0.05,
   "momentum_form": "popular", "trust_norm": "update"},
  {"lr": 0.5, "momentum": 0.6, "weight_decay": 0.1, "trust_coefficient": 0.02, "eps": 0.05, "momentum_form": "scaled"},
  {"lr": 0.5, "momentum": 0.6, "weight_decay": 0.1, "adapt": false}],
"lion": [
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.1, "initial_lr": 0.05, "caution": true,
   "corrected_weight_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.1},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.1, "corrected_weight_decay": true}],
"lookahead_adamw": [{"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.05, "weight_decay": 0.2, "k": 2, "alpha": 0.3}],
"lpf_adamw": [{"lr": 0.01, "betas": [0.6, 0.7, 0.8], "amp_fac": 3, "eps": 0.01, "weight_decay": 0.1}],
"madgrad": [
  {"lr": 0.05, "momentum": 0.6, "weight_decay": 0.1, "eps": 0.02, "decoupled_decay": true},
  {"lr": 0.05, "momentum": 0.6, "weight_decay": 0.1, "eps": 0.02},
  {"lr": 0.05, "momentum": 0, "weight_decay": 0.1, "eps": 0.02, "decoupled_decay": true}],
"mars": [
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "gamma": 0.1, "lr_1d_factor": 0.5,
   "betas_1d": [0.6, 0.75], "caution": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "gamma": 0.1, "betas_1d": [null, 0.75],
   "mars_type": "lion"},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "gamma": 0.1, "lr_1d_factor": 0.5,
   "optimize_1d": true, "caution": true}],
"muon": [
  {"lr": 0.05, "weight_decay": 0.2, "momentum": 0.8, "ns_coefficients": [3, -4, 1.5], "eps": 0.3, "ns_steps": 3,
   "nesterov": false, "adjust_lr_fn": "match_rms_adamw", "ns_dtype": "real", "max_grad_norm": 1.4},
  {"lr": 0.05, "weight_decay": 0.2, "momentum": 0.8, "ns_dtype": "real"},
  {"lr": 0.05, "weight_decay": 0.2, "momentum": 0.8, "ns_dtype": "bf16"}],
"nadam": [
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "momentum_decay": 0.3,
   "decoupled_weight_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "momentum_decay": 0.3}],
"normuon": [
  {"lr": 0.05, "weight_decay": 0.2, "momentum": 0.8, "beta2": 0.7, "ns_coefficients": [3, -4, 1.5], "eps": 0.3,
   "ns_steps": 3, "ns_eps": 0.8, "nesterov": false, "update_scale": "match_rms", "ns_dtype": "real",
   "max_grad_norm": 1.4},
  {"lr": 0.05, "momentum": 0.8, "beta2": 0.7, "ns_dtype": "real"},
  {"lr": 0.05, "momentum": 0.8, "ns_dtype": "bf16"}],
"novograd": [
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.05, "weight_decay": 0.1, "grad_averaging": true,
   "reg_inside_moment": false, "bias_correction": true, "init_zero": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.05, "weight_decay": 0.1},
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.05, "weight_decay": 0.1, "bias_correction": true}],
"nvlamb": [
  {"lr": 0.02, "betas": [0.7, 0.8], "eps": 0.01, "weight_decay": 0.1, "max_grad_norm": 3,
   "bias_correction": false, "grad_averaging": false},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0.1, "max_grad_norm": 2, "adam_w_mode": false},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0, "max_grad_norm": 0, "use_nvlamb": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "weight_decay": 0, "max_grad_norm": 2}],
"prodigy": [
  {"lr": 0.8, "betas": [0.7, 0.8], "beta3": 0.85, "eps": 0.01, "weight_decay": 0.1, "d0": 0.005, "d_coef": 6,
   "growth_rate": 1.1, "slice_p": 3, "use_bias_correction": true, "safeguard_warmup": true},
  {"lr": 0.8, "betas": [0.7, 0.8], "weight_decay": 0.1, "d0": 0.005, "decouple": false},
  {"lr": 0.8, "betas": [0, 0.8], "weight_decay": 0.1, "d0": 0.005}],
"radam": [
  {"lr": 0.02, "betas": [0.7, 0.9], "eps": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.9], "eps": 0.01, "weight_decay": 0.1}],
"ranger21": [
  {"lr": 0.02, "beta0": 0.6, "betas": [0.7, 0.8], "beta_softplus": 4, "agc_clipping_value": 0.3, "agc_eps": 2.2,
   "weight_decay": 0.2, "norm_loss_factor": 0.1, "eps": 0.05, "lookahead_merge_time": 2,
   "lookahead_blending_alpha": 0.3},
  {"lr": 0.02, "betas": [0.7, 0.8], "agc_clipping_value": 0.3, "weight_decay": 0.02, "use_softplus": false,
   "centralize_gradients": false, "fixed_decay": true},
  {"lr": 0.02, "betas": [0.7, 0.8], "agc_clipping_value": 3, "weight_decay": 0.2, "normalize_gradients": false}],
"rmsprop": [
  {"lr": 0.02, "alpha": 0.8, "eps": 0.01, "weight_decay": 0.1, "momentum": 0.6, "centered": true,
   "bias_correction": true},
  {"lr": 0.02, "alpha": 0.8, "eps": 0.01, "weight_decay": 0.1, "decoupled_weight_decay": true}],
"rprop": [{"lr": 0.02, "etas": [0.4, 1.5], "step_sizes": [0.012, 0.06]}],
"schedulefree_adamw": [
  {"lr": 0.05, "betas": [0.8, 0.7], "eps": 0.01, "weight_decay": 0.1, "warmup_steps": 4, "r": 0.5,
   "weight_lr_power": 1.5}],
"schedulefree_sgd": [
  {"lr": 0.2, "momentum": 0.7, "weight_decay": 0.1, "warmup_steps": 4, "r": 0.5, "weight_lr_power": 1.5}],
"sgd": [
  {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1, "max_unorm": 0.03},
  {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.1, "nesterov": true},
  {"lr": 0.05, "weight_decay": 0.1, "max_unorm": 0.03}],
"sgld": [
  {"lr": 0.02, "temperature": 0.01, "weight_decay": 0.1, "alpha": 0.7, "eps": 0.05, "preconditioned": true},
  {"lr": 0.02, "temperature": 0.01, "weight_decay": 0.1}],
"sm3": [
  {"lr": 0.05, "momentum": 0.6, "beta": 0.8, "eps": 0.02},
  {"lr": 0.05, "momentum": 0.6},
  {"lr": 0.05, "beta": 0.8}],
"shampoo": [
  {"lr": 0.02, "momentum": 0.6, "weight_decay": 0.2, "matrix_eps": 0.05, "precondition_frequency": 3,
   "max_precondition_dim": 5, "weight_decouple": true},
  {"lr": 0.02, "momentum": 0.6, "weight_decay": 0.2, "matrix_eps": 0.01},
  {"lr": 0.02, "weight_decay": 0.02, "matrix_eps": 0.01, "weight_decouple": true, "fixed_decay": true}],
"soap": [
  {"lr": 0.02, "betas": [0.7, 0.6], "shampoo_beta": 0.8, "eps": 0.05, "weight_decay": 0.2,
   "precondition_frequency": 2, "max_precondition_dim": 5, "normalize_gradient": true},
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.01, "precondition_frequency": 3, "precondition_1d": true},
  {"lr": 0.02, "betas": [0.7, 0.6], "correct_bias": false}],
"sophia": [{"lr": 0.02, "betas": [0.7, 0.8], "rho": 0.6, "eps": 0.1, "weight_decay": 0.2}],
"stable_adamw": [
  {"lr": 0.02, "betas": [0.7, 0.6], "eps": 0.02, "weight_decay": 0.2},
  {"lr": 0.02, "betas": [0.7, 0.6], "weight_decay": 0.2, "weight_decouple": false}],
"sgdw": [
  {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1, "initial_lr": 0.1, "caution": true,
   "corrected_weight_decay": true},
  {"lr": 0.05, "momentum": 0.8, "weight_decay": 0.1, "nesterov": true},
  {"lr": 0.05, "weight_decay": 0.1, "caution": true, "corrected_weight_decay": true}],
"tiger": [
  {"lr": 0.02, "beta": 0.8, "weight_decay": 0.1, "fixed_decay": true},
  {"lr": 0.02, "beta": 0.8, "weight_decay": 0.1, "weight_decouple": false},
  {"lr": 0.02, "beta": 0.8, "weight_decay": 0.1}]
})";

}  // namespace

const std::map<std::string, std::vector<nlohmann::json>>& moved_options() {
  static const auto moved =
      nlohmann::json::parse(kMoved).get<std::map<std::string, std::vector<nlohmann::json>>>();
  return moved;
}

const nlohmann::json& moved_common_options() {
  static const nlohmann::json moved = {
      {"maximize", true}, {"grad_scale", 1.6}, {"centralization", 0.3}, {"max_grad_norm", 2.8}};
  return moved;
}

}  // namespace jitstep::tests::reference
