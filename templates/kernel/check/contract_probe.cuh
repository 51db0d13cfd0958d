// Probes a rule with a step of one element. Every value that the rule has not set is a special NaN. The bits of a
// result show whether the rule did not set a value, or read it too early. The probe runs on the CPU before a rule's
// first step if JITSTEP_CHECK is set. Only the host knows the fields' names, so it generates the struct UnitWatch.
// It is the argument of the parameter ProbeWriter below, and checks the fields one by one.
#pragma once
#include "../element.cuh"

namespace jitstep {

// A NaN that no arithmetic produces, the same as float and as double. Results computed from it have its bits.
inline constexpr uint32 kPoisonBits = 0x7fdabadau;
inline constexpr uint64 kWidePoisonBits =
    0x7ff0000000000000ull | static_cast<uint64>(kPoisonBits & 0x7fffffu) << 29;
struct Poison {
  operator float() const { return float_of(kPoisonBits); }
  operator double() const { return double_of(kWidePoisonBits); }
  operator int() const { return 0; }
  operator uint32() const { return 0; }
  operator bool() const { return false; }
};
inline bool is_poison(float x) { return (bits_of(x) & 0x7fffffffu) == kPoisonBits; }
inline bool is_poison(double x) { return (bits_of(x) & 0x7fffffffffffffffull) == kWidePoisonBits; }
inline bool is_poison(auto) { return false; }

// Whether a value is the compiler's fill pattern (-ftrivial-auto-var-init=pattern: 0xfe with g++; 0xaa,
// or 0xff in floats, with clang).
template <class T>
bool is_filling(const T& x) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(&x);
  for (unsigned i = 1; i < sizeof(T); ++i)
    if (bytes[i] != bytes[0]) return false;
  const bool floating = kSame<T, float> || kSame<T, double>;
  return bytes[0] == 0xfe || bytes[0] == 0xaa || (floating && bytes[0] == 0xff);
}

// Whether a value is so large that it may be computed from the fill pattern of g++, which is -1.7e38 as a float. A rule
// may have such numbers of its own, so the host confirms the suspicion.
template <class T>
bool may_be_of_filling(const T& x) {
  if constexpr (kSame<T, float> || kSame<T, double>)
    return is_finite(x) && abs(x) > T(1e25);
  else
    return false;
}

inline constexpr float kPreviousState = 0.5f;

// Marks only the first certain finding, because others may follow from it. The host assigns the numbers.
class Findings {
 public:
  explicit Findings(uint8* found) : found_(found) {}

  template <class T>
  void unset(int number, const T& x) {
    mark(number, is_filling(x) || is_poison(x));
  }
  // A value that a rule's formulas compute, perhaps from a local variable that is not set in each branch.
  template <class T>
  void computed(int number, const T& x) {
    mark(number, is_filling(x) || is_poison(x));
    if (may_be_of_filling(x) && !any_) found_[number] = kSuspectedFinding;
  }
  // The value before the step of a field of auxiliary state, from empty_aux_state().
  template <class T>
  void kept(int number, const T& prev) {
    mark(number, !(prev == kPreviousState));
  }
  // A field of auxiliary state, by its number in the kernel, that no function wrote. of_entries: it has a value per row
  // or the like, which only a reduction over its domain can write, so there must be one. assigned: the rule's code
  // writes it, perhaps under a condition that holds in none of these steps.
  void forgotten(int number, int field, bool of_entries, bool assigned) {
    mark(number, open_[field] ? !written_[field] && !assigned : of_entries);
  }
  void aux(int field, bool written) {
    open_[field] = true;
    written_[field] = written_[field] || written;
  }
  template <class T>
  void written(int number, const T& x) {  // although no function may write it
    mark(number, !is_poison(x));
  }

 private:
  void mark(int number, bool wrong) {
    if (wrong && !any_) found_[number] = kFinding;
    any_ = any_ || wrong;
  }

  uint8* found_;
  bool any_ = false;
  bool open_[kMaxAuxFields] = {}, written_[kMaxAuxFields] = {};
};

// KnownPass, KnownAfter: the first passes in which the new slots of `update_state` and of `update_state_after` are
// known.
template <class S, class ProbeWriter, int Passes, int KnownPass, int KnownAfter>
class ContractProbe {
  using Rule = typename S::Rule;
  using Body = typename Rule::Body;
  using AuxState = typename Rule::AuxState;

 public:
  ContractProbe(const HyperParams& hyper_params, real unit, Findings& findings)
      : findings_(findings) {
    e_.p = unit / 2;
    e_.g = unit / 4;
    e_.index = 0;
    for_known_transforms<S, S::transforms>([&](auto t) { decltype(t)::of(e_) = Poison(); });
    e_.random_key = {hyper_params.seed, 0, static_cast<uint32>(hyper_params.t), 0};
    static_for<S::slots>([&](auto i) {
      auto& slot = S::template slot<decltype(i)::value>(e_);
      slot.prev =
          kStored<typename S::template Codec<decltype(i)::value>> ? unit / 8 : real(Poison());
      slot.next = Poison();
    });
    set_inputs(unit, hyper_params.t % 2 == 0);
    if constexpr (elements_read_state<S>()) static_cast<AuxState&>(e_) = empty_aux_state();
    AuxState aux = empty_aux_state();
    const auto& hyper =
        *reinterpret_cast<const typename Rule::Hyper*>(hyper_params.hyper + kCommonHyper);
    static constexpr int64 kOnes[] = {1, 1};
    const Sizes sizes(kOnes, 2);
    static_cast<ScalarsOf<Rule>&>(c_) = prepare<Rule>(hyper, hyper_params.t, sizes, aux);
    ProbeWriter::prepared(findings_, c_, aux);
    if constexpr (PreparesFromAuxState<Body, typename Rule::Hyper, AuxState>) {
      watch_prepared<tensor>(aux);
      watch_prepared<all>(aux);
    }
    ProbeWriter::clear(c_);
  }

  void elements() {
    static_for<Passes>([&](auto pass) { this->template sums<decltype(pass)::value>(); });
    begin<Passes>();
    Body::update_param(e_, c_);
    ProbeWriter::applied(findings_, e_);
  }

  // Between steps, for a rule with modes. The gradient and the results are not set.
  void switch_mode() {
    e_.g = Poison();
    Body::eval(e_, c_);
    ProbeWriter::evaluated(findings_, e_);
    Body::train(e_, c_);
    ProbeWriter::trained(findings_, e_);
  }

 private:
  void set_inputs(real unit, bool given) {
    for_list(typename S::InputFields{}, [&](auto field) {
      e_.*decltype(field)::pointer = {given ? unit / 16 : real(0), given};
    });
  }

  static AuxState empty_aux_state() {
    AuxState aux{};
    for_aux_state<S, kRuleComponent, void>(aux, [](auto, auto& value) {
      value.prev = kPreviousState;
      value.next = Poison();
    });
    ProbeWriter::left_out(aux);
    return aux;
  }

  template <class Domain>
  void watch_prepared(const AuxState& aux) {
    for_aux_state<S, kRuleComponent, Domain>(aux, [&](auto field, const auto& value) {
      findings_.aux(decltype(field)::number, !is_poison(value.next));
    });
  }

  // A field counts as written if `finalize` changes it, whatever its value was.
  template <class R>
  void watch_finalized(const Totals<R::terms>& totals) {
    for (real before = real(0.25); before < 1; before += real(0.5)) {
      AuxState aux = empty_aux_state();
      for_aux_state<S, kRuleComponent, typename R::Domain>(
          aux, [&](auto, auto& value) { value.next = before; });
      Body::finalize(Of<typename R::Coefficients>{}, totals, 1, c_, aux);
      for_aux_state<S, kRuleComponent, typename R::Domain>(aux, [&](auto field, const auto& value) {
        findings_.aux(decltype(field)::number, !(value.next == before));
      });
    }
  }

  // Runs what comes directly before a pass. A function waits for no reduction after the last one.
  template <int Pass>
  void begin() {
    if constexpr (Pass == KnownPass) update_state();
    transform<Pass, 0>();
  }

  // The transforms from number K on, and the slots that depend on them.
  template <int Pass, int K>
  void transform() {
    if constexpr (K == S::state_section && K > 0 && Pass == KnownAfter) {
      compute_state_after<Body>(e_, c_);
      ProbeWriter::moved_after(findings_, e_);
    }
    if constexpr (K < S::transforms) {
      using T = typename At<K, typename S::Transforms>::type;
      if constexpr (T::pass == Pass) {
        T::of(e_) = T::input(static_cast<const ElementOf<S>&>(e_), c_);
        ProbeWriter::transformed(Index<K>{}, findings_, e_);
      }
      transform<Pass, K + 1>();
    }
  }

  template <int Pass>
  void sums() {
    begin<Pass>();
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (R::component == kRuleComponent && R::pass == Pass) this->template reduce<R>();
    });
  }

  void update_state() {
    compute_state<Body>(e_, c_);
    ProbeWriter::moved(findings_, e_);
  }

  template <class R>
  auto& result() {
    return static_cast<typename R::Coefficients&>(c_.*R::pointer);
  }

  template <class R>
  auto terms() {
    constexpr Of<typename R::Coefficients> name;
    if constexpr (R::has_source) {
      using From = typename At<R::source, typename S::Reductions>::type;
      return Body::terms(name, static_cast<const typename From::Coefficients&>(result<From>()), c_);
    } else {
      return Body::terms(name, static_cast<const ElementOf<S>&>(e_), c_);
    }
  }

  // `finalize` gets the auxiliary state of its own domain, with `next` equal to `prev`, as in kernel/finalize.cuh.
  template <class R>
  void reduce() {
    constexpr Of<typename R::Coefficients> name;
    const Reals<R::terms> made = terms<R>();
    Totals<R::terms> totals;
    for (int n = 0; n < R::terms; ++n) {
      findings_.computed(ProbeWriter::terms(Index<R::number>{}), made[n]);
      totals.x[n] = made[n];
    }
    AuxState aux = empty_aux_state();
    for_aux_state<S, kRuleComponent, typename R::Domain>(
        aux, [](auto, auto& value) { value.next = value.prev; });
    if constexpr (finalize_has_aux_state<R>()) watch_finalized<R>(totals);
    if constexpr (requires { Body::finalize(name, totals, 1, c_, aux); })
      result<R>() = Body::finalize(name, totals, 1, c_, aux);
    else
      result<R>() = Body::finalize(name, totals, 1, c_);
    ProbeWriter::finished(Index<R::number>{}, findings_, result<R>(), aux);
  }

  Findings& findings_;
  ElementOf<S> e_;
  Context<Rule> c_;
};

// Runs the probe at every given step number, with values of both signs.
template <class S, class ProbeWriter, int Passes, int KnownPass, int KnownAfter>
void probe(const ProbeArgs& args) {
  Findings findings(args.found);
  using Probe = ContractProbe<S, ProbeWriter, Passes, KnownPass, KnownAfter>;
  for (int i = 0; i < args.hyper_params_count; ++i)
    for (int sign = -1; sign <= 1; sign += 2) {
      const real unit = static_cast<real>(sign);
      Probe(args.hyper_params[i], unit, findings).elements();
      if constexpr (ProbeWriter::modes) Probe(args.hyper_params[i], unit, findings).switch_mode();
    }
  ProbeWriter::remembered(findings);
}

}  // namespace jitstep
