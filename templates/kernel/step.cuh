// The kernels of one optimizer step. For each pass: partial sums, then `finalize`. Then the input of a host
// transform, if the rule has one. Last: new parameters and state. Also kernels that run between steps: mode switches
// and conversions.
#pragma once
#include "convert.cuh"
#include "host_transform.cuh"
#include "modes.cuh"

namespace jitstep {

// Whether the device found that the step must be skipped.
KHD bool is_skipped(const Args& args) {
  const float* const found_inf = args.hyper_params->found_inf;
  return found_inf != nullptr && *found_inf != 0;
}

template <class Component>
constexpr int keys_of() {
  if constexpr (requires { Component::Body::keys; })
    return Component::Body::keys;
  else
    return 0;
}

// Minimum of resident blocks per multiprocessor (65536 registers), so that enough loads are in flight. It is as large
// as kernels of this kind allow without spills. Doubles make a kernel large, because they take two registers.
// Auxiliary state and row results do, because they need addresses. Many terms do, because a lane holds every term of
// its elements. Many keys do, because such codecs compute as much as a rule.
template <class S>
constexpr int blocks_at_once() {
  int terms = 0;
  bool large = sizeof(real) == 8;
  for_reductions<S>([&](auto r) {
    terms += decltype(r)::terms;
    if (!decltype(r)::uniform) large = true;
  });
  int keys = 0;
  static_for<S::slots>([&](auto s) {
    using Component = typename S::template Codec<decltype(s)::value>;
    keys += keys_of<Component>();
    if (has_aux_state<Component>()) large = true;
  });
  if (terms > 8 || keys > 3) large = true;
  const int fitting = 65536 / (S::config.threads * (large ? 255 : 128));
  return fitting > 0 ? fitting : 1;
}

template <class S, int Passes>
struct Step {
  static constexpr int kThreads = S::config.threads;
  static constexpr int kBlocks = blocks_at_once<S>();
  template <int Pass>
  KHD static void partials(const Args& args, Range range) {
    if (!is_skipped(args)) jitstep::partials<S, Pass>(args, range);
  }
  template <int Pass>
  KHD static void finalize(const Args& args, Range range) {
    if (!is_skipped(args)) jitstep::finalize<S, Pass>(args, range);
  }
  KHD static void host_transform(const Args& args, Range range) {
    if (is_skipped(args))
      host_transform_zeros<S>(args, range);
    else
      jitstep::host_transform<S, Passes>(args, range);
  }
  KHD static void apply(const Args& args, Range range) {
    if (is_skipped(args))
      skip<S>(args, range);
    else
      jitstep::apply<S, Passes>(args, range);
  }

  KHD static void eval(const Args& args, Range range) { switch_mode<S, ToEval>(args, range); }
  KHD static void train(const Args& args, Range range) { switch_mode<S, ToTrain>(args, range); }

  template <int I>
  KHD static void decode(const Args& args, Range range) {
    jitstep::decode<S, I>(args, range);
  }
  template <int I>
  KHD static void encode(const Args& args, Range range) {
    jitstep::encode<S, I>(args, range);
  }
  KHD static void decode_weights(const Args& args, Range range) {
    jitstep::decode_weights<S>(args, range);
  }
  KHD static void encode_weights(const Args& args, Range range) {
    jitstep::encode_weights<S>(args, range);
  }
};

}  // namespace jitstep
