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

template <class Part>
constexpr int keys_of() {
  if constexpr (requires { Part::Body::keys; })
    return Part::Body::keys;
  else
    return 0;
}

// Blocks that a multiprocessor, which has 65536 registers, must have room for, so that many threads keep bytes on
// their way: as many as kernels of this sort do not spill for. Doubles take two registers each, what a codec
// remembers of an element or a reduction gives its row is found at an address, a lane holds every term of its
// elements, and many measured slots, or codecs with several keys, compute as much as a rule.
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
    using Part = typename S::template Codec<decltype(s)::value>;
    keys += keys_of<Part>();
    if (remembers<Part>()) large = true;
  });
  if (terms > 8 || keys > 3) large = true;
  const int fitting = 65536 / (S::variant.threads * (large ? 255 : 128));
  return fitting > 0 ? fitting : 1;
}

template <class S, int Passes>
struct Step {
  static constexpr int kThreads = S::variant.threads;
  static constexpr int kBlocks = blocks_at_once<S>();
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
  KHD static void decode_weights(const Args& args, Range range) {
    jitstep::decode_weights<S>(args, range);
  }
  KHD static void encode_weights(const Args& args, Range range) {
    jitstep::encode_weights<S>(args, range);
  }
};

}  // namespace jitstep
