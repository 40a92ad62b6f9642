/* base/chance: what is left to chance so that many do not act at the same moment: rests, back-offs, lifetimes. No secret
   is made of it. */
#ifndef BASE_CHANCE_H
#define BASE_CHANCE_H

double chance_fraction(void); /* evenly from 0 up to, and without, 1 */

#endif
