// One optimizer step as kernels: for each pass `partials` and `finish`, then `apply`, before it
// perhaps `stage`. Beside them what is
// done between steps: modes and conversions.
#pragma once
#include "convert.cuh"
#include "modes.cuh"
#include "stage.cuh"

namespace jitstep {

// Whether the device has found a reason to leave everything as it is.
KHD bool is_skipped(const Args& args) {
  const float* const found_inf = args.sets->found_inf;
  return found_inf != nullptr && *found_inf != 0;
}

template <class S, int Passes>
struct Step {
  static constexpr int kThreads = S::variant.threads;
  template <int Pass>
  KHD static void partials(const Args& args, Range range) {
    if (!is_skipped(args)) jitstep::partials<S, Pass>(args, range);
  }
  template <int Pass>
  KHD static void finish(const Args& args, Range range) {
    if (!is_skipped(args)) jitstep::finish<S, Pass>(args, range);
  }
  KHD static void stage(const Args& args, Range range) {
    if (is_skipped(args))
      stage_zeros<S>(args, range);
    else
      jitstep::stage<S, Passes>(args, range);
  }
  KHD static void apply(const Args& args, Range range) {
    if (is_skipped(args))
      skip<S>(args, range);
    else
      jitstep::apply<S, Passes>(args, range);
  }

  KHD static void eval(const Args& args, Range range) { turn<S, ToEval>(args, range); }
  KHD static void train(const Args& args, Range range) { turn<S, ToTrain>(args, range); }

  template <int I>
  KHD static void decode(const Args& args, Range range) {
    jitstep::decode<S, I>(args, range);
  }
  template <int I>
  KHD static void encode(const Args& args, Range range) {
    jitstep::encode<S, I>(args, range);
  }
};

}  // namespace jitstep
