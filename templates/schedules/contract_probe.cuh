// A step of one element in which every value that the rule does not set is a special NaN. Its bits show what the rule
// forgot to set, or read too early. It runs on the CPU before a rule's first step if JITSTEP_CHECK is set. The host knows
// the fields' names. It generates Watch, which checks them one by one.
#pragma once
#include "step.cuh"

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

// Marks the first finding only, because others may follow from it. The host assigns the numbers.
class Findings {
 public:
  explicit Findings(uint8* found) : found_(found) {}

  template <class T>
  void unset(int number, const T& x) {
    mark(number, is_filling(x) || is_poison(x));
  }
  void spoilt(int number, real x) { mark(number, is_poison(x)); }
  // A field of auxiliary state, by its number in the kernel, that no function wrote.
  void forgotten(int number, int field) { mark(number, open_[field] && !written_[field]); }
  void memory(int field, bool written) {
    open_[field] = true;
    written_[field] = written_[field] || written;
  }
  template <class T>
  void written(int number, const T& x) {  // although no function may
    mark(number, !is_poison(x));
  }

 private:
  void mark(int number, bool wrong) {
    if (wrong && !any_) found_[number] = 1;
    any_ = any_ || wrong;
  }

  uint8* found_;
  bool any_ = false;
  bool open_[kMaxMemory] = {}, written_[kMaxMemory] = {};
};

template <class S, class Watch, int Passes, int KnownPass>
class ContractProbe {
  using Rule = typename S::Rule;
  using Body = typename Rule::Body;
  using Memory = typename Rule::Memory;

 public:
  ContractProbe(const HyperSet& set, real unit, Findings& findings) : findings_(findings) {
    e_.p = unit / 2;
    e_.g = unit / 4;
    e_.index = 0;
    e_.staged = Poison();
    static_for<S::slots>([&](auto i) {
      auto& slot = S::template slot<decltype(i)::value>(e_);
      slot.was =
          kStored<typename S::template Codec<decltype(i)::value>> ? unit / 8 : real(Poison());
      slot.next = Poison();
    });
    Memory memory = empty_memory();
    const auto& hyper = *reinterpret_cast<const typename Rule::Hyper*>(set.hyper + kCommonHyper);
    static_cast<ScalarsOf<Rule>&>(c_) = prepare<Rule>(hyper, set.t, memory);
    Watch::prepared(findings_, c_, memory);
    if constexpr (requires { Body::prepare(hyper, 1, memory); }) {
      watch_prepared<tensor>(memory);
      watch_prepared<all>(memory);
    }
    Watch::clear(c_);
  }

  void run() {
    static_for<Passes>([&](auto pass) { this->template sums<decltype(pass)::value>(); });
    if constexpr (KnownPass >= Passes) moments();
    if constexpr (S::staged) {
      e_.staged = Body::staged(static_cast<const Element<typename S::Slots>&>(e_), c_);
      Watch::staged(findings_, e_);
    }
    Body::apply(e_, c_);
    Watch::applied(findings_, e_);
  }

  // Between steps, for a rule with modes. There is no gradient and no result.
  void turn() {
    e_.g = Poison();
    Body::eval(e_, c_);
    Watch::evaluated(findings_, e_);
    Body::train(e_, c_);
    Watch::trained(findings_, e_);
  }

 private:
  static Memory empty_memory() {
    Memory memory{};
    for_memory<S, kRulePart, void>(memory, [](auto, auto& value) {
      value.was = real(0.5);
      value.next = Poison();
    });
    Watch::left_out(memory);
    return memory;
  }

  template <class Domain>
  void watch_prepared(const Memory& memory) {
    for_memory<S, kRulePart, Domain>(memory, [&](auto field, const auto& value) {
      findings_.memory(decltype(field)::number, !is_poison(value.next));
    });
  }

  // A field counts as written if `finish` changes it, for every value before.
  template <class R>
  void watch_finished(const Totals<R::terms>& totals) {
    for (real before = real(0.25); before < 1; before += real(0.5)) {
      Memory memory = empty_memory();
      for_memory<S, kRulePart, typename R::Domain>(memory,
                                                   [&](auto, auto& value) { value.next = before; });
      Body::finish(Of<typename R::Coefficients>{}, totals, 1, c_, memory);
      for_memory<S, kRulePart, typename R::Domain>(memory, [&](auto field, const auto& value) {
        findings_.memory(decltype(field)::number, !(value.next == before));
      });
    }
  }

  template <int Pass>
  void sums() {
    if constexpr (Pass == KnownPass) moments();
    for_reductions<S>([&](auto r) {
      using R = decltype(r);
      if constexpr (R::part == kRulePart && R::pass == Pass) this->template reduce<R>();
    });
  }

  void moments() {
    compute_moments<Body>(e_, c_);
    Watch::moved(findings_, e_);
  }

  template <class R>
  auto& result() {
    return static_cast<typename R::Coefficients&>(c_.*R::pointer);
  }

  template <class R>
  auto terms() {
    constexpr Of<typename R::Coefficients> name;
    if constexpr (R::over) {
      using From = typename At<R::source, typename S::Reductions>::type;
      return Body::terms(name, static_cast<const typename From::Coefficients&>(result<From>()), c_);
    } else {
      return Body::terms(name, static_cast<const Element<typename S::Slots>&>(e_), c_);
    }
  }

  // `finish` sees auxiliary state of its own domain with its previous values, as in schedules/finish.cuh.
  template <class R>
  void reduce() {
    constexpr Of<typename R::Coefficients> name;
    const Reals<R::terms> made = terms<R>();
    Totals<R::terms> totals;
    for (int n = 0; n < R::terms; ++n) {
      findings_.spoilt(Watch::terms(Index<R::number>{}), made[n]);
      totals.x[n] = made[n];
    }
    Memory memory = empty_memory();
    for_memory<S, kRulePart, typename R::Domain>(memory,
                                                 [](auto, auto& value) { value.next = value.was; });
    if constexpr (finish_remembers<R>()) watch_finished<R>(totals);
    if constexpr (requires { Body::finish(name, totals, 1, c_, memory); })
      result<R>() = Body::finish(name, totals, 1, c_, memory);
    else
      result<R>() = Body::finish(name, totals, 1, c_);
    Watch::finished(Index<R::number>{}, findings_, result<R>(), memory);
  }

  Findings& findings_;
  Element<typename S::Slots> e_;
  Context<Rule> c_;
};

// Runs the probe at every given step number, with values of both signs.
template <class S, class Watch, int Passes, int KnownPass>
void probe(const ProbeArgs& args) {
  Findings findings(args.found);
  using Probe = ContractProbe<S, Watch, Passes, KnownPass>;
  for (int i = 0; i < args.set_count; ++i)
    for (int sign = -1; sign <= 1; sign += 2) {
      const real unit = static_cast<real>(sign);
      Probe(args.sets[i], unit, findings).run();
      if constexpr (Watch::modes) Probe(args.sets[i], unit, findings).turn();
    }
  Watch::remembered(findings);
}

}  // namespace jitstep
