// The words a rule, codec or weight format is written in. README.md beside core/ explains them.
// Knows no rule, no format and no thread.
#pragma once
#include "formats.cuh"
#include "refused.cuh"

namespace jitstep {

// ---- hyperparameters (host arithmetic, double) -------------------------------------------------

template <int N>
struct Numbers {
  double x[N];
  KHD constexpr double operator[](int i) const { return x[i]; }
};

inline constexpr double null = kNaN;  // a Nullable that is not set
struct Nullable {
  double value;
  KHD constexpr Nullable(double x) : value(x) {}
  KHD bool has_value() const { return value == value; }
};

// One number for each parameter, for `initial:`; an empty list is 0 for all. Kernels do not see it.
namespace rules {
struct List {
  double unused = 0;
};
}  // namespace rules

// ---- slots: one value per element, kept by a codec ---------------------------------------------

struct Slot {
  real was;   // before the step
  real next;  // set by `moments`
};
struct Signed : Slot {};
struct NonNegative : Slot {};

template <class Slots>
struct Element : Slots {
  real p, g;
  int64 index;  // the element's number in its parameter, in storage order
  real staged;  // for `apply`: what the host stage made of the rule's `staged`
};

// ---- domains: what one entry of a reduction or of memory covers --------------------------------
// reduced(dims): one bit for each dimension that runs inside an entry.

KHD constexpr uint32 all_dims(int dims) { return (1u << dims) - 1u; }

struct tensor {
  static constexpr int space = 0;
  KHD static uint32 reduced(int dims) { return all_dims(dims); }
};
struct all : tensor {};  // every tensor of the optimizer on one device
struct first {           // an index of dimension 0; a vector: the tensor
  static constexpr int space = 1;
  KHD static uint32 reduced(int dims) { return dims < 2 ? all_dims(dims) : all_dims(dims) & ~1u; }
};
struct rows {  // everything but the last dimension
  static constexpr int space = 2;
  KHD static uint32 reduced(int dims) { return 1u << (dims - 1); }
};
struct columns {  // everything but the last dimension but one; a vector is a matrix of one row
  static constexpr int space = 3;
  KHD static uint32 reduced(int dims) { return dims < 2 ? 0u : 1u << (dims - 2); }
};
struct matrices {  // everything but the last two dimensions
  static constexpr int space = 4;
  KHD static uint32 reduced(int dims) { return dims < 2 ? all_dims(dims) : 3u << (dims - 2); }
};
template <int K>
struct axis {  // an index of dimension K; where there is none, the tensor
  static_assert(K >= 0 && K < 4, "axis<0> to axis<3>");
  static constexpr int space = 5 + K;
  KHD static uint32 reduced(int dims) {
    return K < dims ? all_dims(dims) & ~(1u << K) : all_dims(dims);
  }
};

// ---- reductions --------------------------------------------------------------------------------

template <int N>
struct Reals {
  real x[N];
  KHD real operator[](int i) const { return x[i]; }
};
template <int N>
struct Totals {
  double x[N];
  KHD double operator[](int i) const { return x[i]; }
};
template <class Coefficients>
struct Of {};  // names a reduction when several overload `terms` and `finish`

struct Elements {};  // a reduction runs over elements, unless it names another's entries:
template <class Domain_, class Coefficients_>
struct Entries {  // those of the reduction over Domain that made Coefficients
  using Domain = Domain_;
  using Coefficients = Coefficients_;
};

// Sum and Max of N terms over each entry of Domain; Coefficients is what `finish` makes of them,
// and readable as a base. Over: Entries<...> to reduce those instead of elements.
template <class Domain_, int N, class Coefficients_, class Over_ = Elements>
struct Sum : Coefficients_ {
  using Domain = Domain_;
  using Coefficients = Coefficients_;
  using Over = Over_;
  static constexpr int terms = N;
  static constexpr double absent = 0;
  template <class T>
  KHD static T combine(T a, T b) {
    return a + b;
  }
};
template <class Domain_, int N, class Coefficients_, class Over_ = Elements>
struct Max : Coefficients_ {
  using Domain = Domain_;
  using Coefficients = Coefficients_;
  using Over = Over_;
  static constexpr int terms = N;
  static constexpr bool in_any_order = true;  // combined in any order, terms give the same
  static constexpr double absent = -kInfinity;
  template <class T>
  KHD static T combine(T a, T b) {
    return maximum(a, b);
  }
};

// ---- memory: one value per entry of a domain, kept in `real`, host scalars in double -----------

template <class Domain_, class Value_ = real>
struct Entry {
  using Domain = Domain_;
  using Value = Value_;
  Value was;
  Value next;
};

// ---- what a file leaves out --------------------------------------------------------------------

struct NoHyper {};
struct NoFlags {};
struct NoSlots {};
struct NoScalars {};
struct NoReductions {};
struct NoMemory {};
struct NoMeta {};
struct NoExtra {};
struct NoOptions {};

// The code of a four-bit format: two of them share a byte, the even element in the low half.
struct Nibble {};

// The code of a format that keeps nothing of one element: what is kept of its row, its column and the like, in
// Memory, is all there is. Rules compute with the new values as they are kept.
struct NoCode {};

}  // namespace jitstep
