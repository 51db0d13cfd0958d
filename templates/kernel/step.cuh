// The kernels of one optimizer step. For each pass: partial sums, then `finalize`. Between two passes, or after the
// last one: the input of a host transform, if the rule has one. Last: new parameters and state. Also mode switches,
// which run between steps.
#pragma once
#include "finalize.cuh"
#include "occupancy.cuh"
#include "partials.cuh"
#include "tile/apply.cuh"
#include "tile/host_transform.cuh"
#include "tile/modes.cuh"

namespace jitstep {

// Whether the device found that the step must be skipped.
KHD bool is_skipped(const Args& args) {
  const float* const found_inf = args.hyper_params->found_inf;
  return found_inf != nullptr && *found_inf != 0;
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
  template <int K>
  KHD static void host_transform(const Args& args, Range range) {
    if (is_skipped(args))
      host_transform_zeros<S, K>(args, range);
    else
      jitstep::host_transform<S, K>(args, range);
  }
  KHD static void apply(const Args& args, Range range) {
    if (is_skipped(args))
      skip<S>(args, range);
    else
      jitstep::apply<S, Passes>(args, range);
  }

  KHD static void eval(const Args& args, Range range) { switch_mode<S, ToEval>(args, range); }
  KHD static void train(const Args& args, Range range) { switch_mode<S, ToTrain>(args, range); }
};

}  // namespace jitstep
