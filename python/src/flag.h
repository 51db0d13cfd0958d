// A flag that is set during a scope.
#pragma once

namespace jitstep::python {

/// Sets a flag until the end of a scope. Afterwards, it has its value of before.
class Flag {
 public:
  explicit Flag(bool& flag) : flag_(flag), before_(flag) { flag_ = true; }
  ~Flag() { flag_ = before_; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  bool& flag_;
  bool before_;
};

}  // namespace jitstep::python
