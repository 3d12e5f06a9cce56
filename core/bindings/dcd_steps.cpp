// The steps of every loss on every kind of rows.
#include "dcd.hpp"

namespace bridle {

#define BRIDLE_STEPS(...) template StepsOf<__VA_ARGS__> steps_by<__VA_ARGS__>(const AnyLoss &);
BRIDLE_EACH_ROWS(BRIDLE_STEPS)

} // namespace bridle
