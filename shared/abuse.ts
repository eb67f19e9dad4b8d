/** Types of alerts: harm that guests do to others, and `out_of_memory`, which concerns only the guest itself. */
export const abuseTypes = [
  'port_scan',
  'horizontal_scan',
  'brute_force',
  'ddos',
  'spam',
  'mining',
  'proxy',
  'reflection',
  'out_of_memory',
] as const
export type AbuseType = (typeof abuseTypes)[number]

/** In ascending order. */
export const severities = ['medium', 'high', 'critical'] as const
export type Severity = (typeof severities)[number]

/** Access of a guest to port 25 of other hosts. `default`: the host's configuration decides. */
export const smtpChoices = ['default', 'open', 'closed'] as const
export type SmtpChoice = (typeof smtpChoices)[number]

/** Most stored alerts of one host. */
export const keptAlerts = 10_000

/** The user that the journal and audit logs name when a guest is stopped for abuse. */
export const securityUser = 'system:security'

/** The consequence of an alert; empty: none. */
export const alertActions = ['', 'stop_pending', 'stopped', 'canceled', 'lifted'] as const
export type AlertAction = (typeof alertActions)[number]
