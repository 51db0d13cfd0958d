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

// The minimum of resident blocks per multiprocessor, for __launch_bounds__. More blocks keep more loads in flight. A
// multiprocessor has 65536 registers. A thread may use:
//   255 in large kernels: doubles take two registers, auxiliary state and results per row need addresses, a lane holds
//       every term of its elements, and codecs with many keys compute as much as a rule.
//   128 in other kernels: the most blocks without spills.
//   85  in kernels without branches in arithmetic and codes. They spill, mostly for operands that are not ordinary, and
//       are 17 % faster on an H200 than two blocks of 256 threads without spills.
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
  const int registers = large ? 255 : has_ordinary<S>() && has_quick_slots<S>() ? 85 : 128;
  const int fitting = 65536 / (S::config.threads * registers);
  return fitting > 0 ? fitting : 1;
}

}  // namespace jitstep
