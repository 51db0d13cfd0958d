// The kernel language of rules, codecs and weight formats. docs/extending/reference.md explains it. Independent of
// rules, formats and threads.
#pragma once
#include "element_functions.cuh"
#include "formats.cuh"
#include "ordinary.cuh"
#include "random.cuh"
#include "refused.cuh"

namespace jitstep {

// ---- hyperparameters (host arithmetic, double) -------------------------------------------------

// An index outside the list gives NaN: a rule may compute it from an option.
template <int N>
struct Numbers {
  double x[N];
  KHD constexpr double operator[](int i) const { return i >= 0 && i < N ? x[i] : kNaN; }
};

inline constexpr double null = kNaN;  // value of an unset Nullable
struct Nullable {
  double value;
  KHD constexpr Nullable(double x) : value(x) {}
  KHD bool has_value() const { return value == value; }
};

// One number per parameter, for `initial:`. An empty list means 0 for all. Kernels never read it.
namespace rules {
struct List {
  double unused = 0;
};
}  // namespace rules

// ---- sizes of a parameter ----------------------------------------------------------------------

// The sizes of a parameter, for `prepare`. A part of a parameter has those of the whole parameter.
class Sizes {
 public:
  // `sizes`: one for each of `dims` dimensions.
  KHD Sizes(const int64* sizes, int dims) : sizes_(sizes), dims_(dims) {}
  // At least 1: a scalar is a vector with one element.
  KHD int dims() const { return dims_; }
  KHD int64 numel() const { return product_from(0); }
  // The size of dimension d, counted from the last one if d is negative. 1 if there is no such dimension.
  KHD int64 operator()(int d) const {
    const int from_first = d < 0 ? d + dims_ : d;
    return from_first < 0 || from_first >= dims_ ? 1 : sizes_[from_first];
  }
  // Inputs and outputs of a layer, as torch.nn.init counts them. A vector has one input, and its size of outputs.
  KHD int64 fan_in() const { return product_from(1); }
  KHD int64 fan_out() const { return (*this)(0) * product_from(2); }

 private:
  KHD int64 product_from(int d) const {
    int64 product = 1;
    for (; d < dims_; ++d) product *= sizes_[d];
    return product;
  }

  const int64* sizes_;
  int dims_;
};

// ---- slots: one value per element, stored by a codec -------------------------------------------

struct Slot {
  real prev;  // before the step
  real next;  // set by `update_state`
};
struct Signed : Slot {};
struct NonNegative : Slot {};

// An input of a step in addition to the gradient, such as an estimate of the Hessian's diagonal.
struct Input {
  real value;  // 0 if not given
  // Whether the program has given the input for this step. It is the same for all elements of a tensor.
  bool given;
};

// State: the rule's auxiliary state, with `prev` of the element's own entries, or NoAuxState. Transforms: the results
// of host transforms that a struct of the rule declares, for functions that run after them.
template <class Slots, class State, class Inputs, class Transforms>
struct Element : Slots, State, Inputs, Transforms {
  real p, g;
  int64 index;       // number of the element in its parameter, in storage order
  real transformed;  // the host transform's result, for functions that run after it
  RandomKey random_key;
  // 32 random bits number k, for k in [0, 256).
  KHD uint32 random(int k) const { return random_bits(random_key, index, k); }
};

// ---- domains: what one entry of a reduction or of auxiliary state covers -----------------------
// reduced(dims): a bit per dimension, set if the dimension is inside an entry.

KHD constexpr uint32 all_dims(int dims) { return (1u << dims) - 1u; }

struct tensor {
  static constexpr int reduction_layout = 0;
  KHD static uint32 reduced(int dims) { return all_dims(dims); }
};
struct all : tensor {};  // all tensors of the optimizer on one device
struct first {           // an index of dimension 0; of a vector, the tensor
  static constexpr int reduction_layout = 1;
  KHD static uint32 reduced(int dims) { return dims < 2 ? all_dims(dims) : all_dims(dims) & ~1u; }
};
struct rows {  // an index of all but the last dimension
  static constexpr int reduction_layout = 2;
  KHD static uint32 reduced(int dims) { return 1u << (dims - 1); }
};
struct columns {  // all but the second-last dimension; a vector is a matrix of one row
  static constexpr int reduction_layout = 3;
  KHD static uint32 reduced(int dims) { return dims < 2 ? 0u : 1u << (dims - 2); }
};
struct matrices {  // an index of all but the last two dimensions
  static constexpr int reduction_layout = 4;
  KHD static uint32 reduced(int dims) { return dims < 2 ? all_dims(dims) : 3u << (dims - 2); }
};
template <int K>
struct axis {  // an index of dimension K; if there is none, the tensor
  static_assert(K >= 0 && K < 4, "axis<0> to axis<3>");
  static constexpr int reduction_layout = 5 + K;
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
  KHD double operator[](int i) const { return i >= 0 && i < N ? x[i] : kNaN; }
};
template <class Coefficients>
struct Of {};  // selects the `terms` and `finalize` of a reduction

struct Elements {};  // source of a reduction over elements, the default
template <class Domain_, class Coefficients_>
struct Entries {  // source: entries of the reduction over Domain with this result
  using Domain = Domain_;
  using Coefficients = Coefficients_;
};

// Sum and Max of N terms over each entry of Domain. Coefficients is the result that `finalize` returns, as a base
// class. The last parameter is the source: elements, or Entries<...>.
template <class Domain_, int N, class Coefficients_, class Over_ = Elements>
struct Sum : Coefficients_ {
  using Domain = Domain_;
  using Coefficients = Coefficients_;
  using Over = Over_;
  static constexpr int terms = N;
  static constexpr bool is_sum = true;
};
template <class Domain_, int N, class Coefficients_, class Over_ = Elements>
struct Max : Coefficients_ {
  using Domain = Domain_;
  using Coefficients = Coefficients_;
  using Over = Over_;
  static constexpr int terms = N;
  static constexpr bool is_sum = false;
};

// ---- auxiliary state: one value per entry of a domain, in `real` or double ---------------------

template <class Domain_, class Value_ = real>
struct Entry {
  using Domain = Domain_;
  using Value = Value_;
  Value prev;
  Value next;
};

// ---- for structures that a file does not declare -----------------------------------------------

struct NoHyper {};
struct NoFlags {};
struct NoSlots {};
struct NoInputs {};
struct NoTransforms {};

// A matrix of state of size(Rows) x size(Columns), which only host transforms use.
template <int Rows, int Columns>
struct Matrix {};
struct NoScalars {};
struct NoReductions {};
struct NoAuxState {};
struct NoMeta {};
struct NoResidual {};
struct NoOptions {};

// The code of a 4-bit format. Two share a byte, the even element in the low half.
struct Nibble {};

// The code of a format that stores nothing per element, only auxiliary state of rows, columns and the like.
// Rules compute with new values as they are stored.
struct NoCode {};

}  // namespace jitstep
