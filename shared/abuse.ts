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

/** From the least. */
export const severities = ['medium', 'high', 'critical'] as const
export type Severity = (typeof severities)[number]

/** Whether a guest reaches port 25 of others; `default`: as the host is configured. */
export const smtpChoices = ['default', 'open', 'closed'] as const
export type SmtpChoice = (typeof smtpChoices)[number]

/** Alerts that are kept of one host, at most. */
export const keptAlerts = 10_000

/** Who stops guests for abuse, in the journal and in audit logs. */
export const securityUser = 'system:security'

/** What follows from an alert; empty: nothing. */
export const alertActions = ['', 'stop_pending', 'stopped', 'canceled', 'lifted'] as const
export type AlertAction = (typeof alertActions)[number]
