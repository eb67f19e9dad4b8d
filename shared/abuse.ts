/** Types of abuse alerts. `out_of_memory` is a problem of the guest itself. All other types are abuse. */
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

/** Severities of an alert, in ascending order. */
export const severities = ['medium', 'high', 'critical'] as const
export type Severity = (typeof severities)[number]

/** Access of a guest to port 25 of other servers. `default` uses the setting of the host's configuration. */
export const smtpChoices = ['default', 'open', 'closed'] as const
export type SmtpChoice = (typeof smtpChoices)[number]

/** Maximum number of stored alerts per host. */
export const keptAlerts = 10_000

/** Name of the user in operations and audit logs if the agent itself stops a guest because of abuse. */
export const securityUser = 'system:security'

/** The action that followed an alert. An empty text means that no action followed. */
export const alertActions = ['', 'stop_pending', 'stopped', 'canceled', 'lifted'] as const
export type AlertAction = (typeof alertActions)[number]
