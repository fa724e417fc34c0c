"""Numbers in, numbers out: functions of the univariate normal truncated to h >= 0, or to a box."""

from tggm.special.box_quantile import box_quantile as box_quantile
from tggm.special.boxes import box_entropy as box_entropy
from tggm.special.boxes import box_log_z as box_log_z
from tggm.special.boxes import box_mean as box_mean
from tggm.special.boxes import box_moments as box_moments
from tggm.special.boxes import box_third as box_third
from tggm.special.boxes import box_var as box_var
from tggm.special.boxes import log_ndtr_interval as log_ndtr_interval
from tggm.special.characteristic import complex_moments as complex_moments
from tggm.special.characteristic import log_characteristic as log_characteristic
from tggm.special.partition import truncated_entropy as truncated_entropy
from tggm.special.partition import truncated_log_z as truncated_log_z
from tggm.special.truncated import hazard as hazard
from tggm.special.truncated import log_ndtr as log_ndtr
from tggm.special.truncated import standard_moments as standard_moments
from tggm.special.truncated import truncated_mean as truncated_mean
from tggm.special.truncated import truncated_third as truncated_third
from tggm.special.truncated import truncated_var as truncated_var
