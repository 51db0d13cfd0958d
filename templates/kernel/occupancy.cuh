// How many blocks of a kernel a multiprocessor should hold.
#pragma once
#include "assembly.cuh"

namespace jitstep {

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
// its elements. Many keys do, because such codecs compute as much as a rule. Kernels without branches in arithmetic and
// codes get three blocks of 256 threads: they spill, mostly for operands that are not ordinary, and are
// 17 % faster on an H200 than two blocks without spills.
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
  const int fitting = 65536 / (S::config.threads * (large ? 255 : has_ordinary<S>() && has_quick_slots<S>() ? 85 : 128));
  return fitting > 0 ? fitting : 1;
}

}  // namespace jitstep
