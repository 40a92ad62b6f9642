/* conf/dropin: drop-in mode, configured by the variables of the agency's authorizer proxy. */
#ifndef CONF_DROPIN_H
#define CONF_DROPIN_H

#include "conf/load.h"

#define DROPIN_SETTINGS "cwms/drop-in.yaml" /* embedded */

/* Is it meant? --drop-in, DOORWARD_DROP_IN=1, or no file and both CWMS_API_URL and OPA_URL set. */
bool dropin_is_meant(struct load *l, bool asked, bool have_file);

/* Puts what the settings file cannot say into its tree, its ${...} having been expanded. Wrong values are problems
   under the variable's own name. */
void dropin_map(struct load *l, struct node *top);

/* After the DOORWARD_ variables: tokens are verified by keys once there are issuers. */
void dropin_finish(struct load *l, struct node *top);

#endif
