// A list of types, each of which has a name: to add one is to write it and to put it into the list.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace bridle {

template <class... Types> struct Named {
  using Any = std::variant<Types...>;

  // The type of that name, made of the arguments. `what` is what the error calls it.
  template <class... Arguments>
  static Any make(std::string_view what, std::string_view name, const Arguments &...arguments) {
    std::optional<Any> made;
    if (!((Types::name == name && (made.emplace(Types{arguments...}), true)) || ...))
      throw std::invalid_argument("unknown " + std::string(what) + ": " + std::string(name));
    return *made;
  }

  static std::vector<std::string> names() { return {std::string(Types::name)...}; }
};

} // namespace bridle
