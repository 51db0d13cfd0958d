// Switches the parameters of a rule with modes from the training point to the evaluation point, or back. The
// arguments are a step's, without gradients. A tensor's hyperparameters are those of its last step. The next entry of
// the table repeats them with t + 1. Loads use that entry to select the current state buffers.
#pragma once
#include "apply.cuh"

namespace jitstep {

// Types, because a rule's functions are templates, and a template cannot be an argument.
template <class Rule>
struct ToEval {
  KHD static void switch_mode(auto& e, const auto& c) { Rule::eval(e, c); }
};
template <class Rule>
struct ToTrain {
  KHD static void switch_mode(auto& e, const auto& c) { Rule::train(e, c); }
};

// last: the scope of the last step. held: the same scope with t + 1, for loads.
template <class S, class To, class Cursor>
KHD void switch_mode_tile(const Scope<S>& last, const Scope<S>& held, const Cursor& at) {
  using Shape = typename ApplyTile<S>::Shape;
  Fragment<S, Shape> f;
  load_weights<S, Shape>(held, at, f.p);
  load_slots<S, Shape>(held, at, f);
  UNROLL
  for (int row = 0; row < Shape::rows; ++row) {
    UNROLL
    for (int k = 0; k < Shape::vector; ++k) {
      const int i = row * Shape::vector + k;
      ElementOf<S> e;
      e.p = f.p[i];
      e.index = held.tensor.offset + at.element(Shape::row_start(row) + k);
      set_slots<S>(f, i, e);
      To::switch_mode(e, last.rule);
      f.p[i] = e.p;
    }
  }
  store_weights<S, Shape, false>(last, at, f.p);
}

template <class S, template <class> class To>
KHD void switch_mode(const Args& args, Range range) {
  fill_codebooks<S>();
  Preparation<S> preparation;
  for (int64 i = range.begin; i < range.end; i += range.stride) {
    const Item item = args.items[i];
    const Scope<S> last = scope_of<S, 0>(args, item.tensor, preparation.of(args, item.tensor));
    const Scope<S> held{args, last.tensor, last.step, args.hyper_params[last.step.hyper_index + 1],
                        {},   {},          {}};
    for_tiles<S>(last, item, [&](const TilePosition& at) {
      with_cursor(at, [&](const auto& cursor) {
        switch_mode_tile<S, To<typename S::Rule::Body>>(last, held, cursor);
      });
    });
  }
}

}  // namespace jitstep
