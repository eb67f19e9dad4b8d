import { checkFirewall, firewallWords, type Firewall } from '../../shared/firewall-rules.js'
import { parsePlacement } from '../../shared/placement-rules.js'
import { checked, flag, InvalidValue, listOf, oneOf, parseObject, text, words, type Form } from './forms.js'

/* Forms of the firewall and the placement of a guest. They accept the same values as the gateway. */

/** A rule as the API shows it, without its id. */
interface RuleRow {
  readonly direction: string
  readonly protocol: string
  readonly action: string
  readonly network: string
  readonly source_ip: string
  readonly port: string
  readonly description: string
}

interface FirewallRow {
  readonly enabled: boolean
  readonly default_action: string
  readonly rules: readonly RuleRow[]
}

const portList: Form = {
  parse: (value) => (typeof value === 'number' ? String(value) : text.parse(value)),
}
const ruleForms = {
  direction: oneOf(...firewallWords.directions),
  protocol: oneOf(...firewallWords.protocols),
  action: oneOf(...firewallWords.actions),
  network: oneOf(...firewallWords.networks),
  source_ip: text,
  port: portList,
  description: text,
}
const ruleDefaults = { network: 'all', source_ip: '', port: '', description: '' }
const firewallForms = {
  enabled: flag,
  default_action: oneOf(...firewallWords.actions),
  rules: { parse: (value: unknown) => listOf(value, parseRule) },
}

/** The complete firewall of a guest. */
export const firewall: Form = {
  parse(value) {
    const { enabled, default_action: action, rules = [] } = parseObject(firewallForms, value)
    if (enabled === undefined) throw new InvalidValue('enabled is required')
    if (enabled === true && action === undefined) throw new InvalidValue('default_action is required')
    return canonicalFirewall({ enabled, default_action: action ?? 'ACCEPT', rules } as FirewallRow)
  },
  read: (value) => withoutIds(value as FirewallRow),
  write: (value) => ({ ...(value as FirewallRow), rules: (value as FirewallRow).rules.map(writtenRule) }),
  parts: (wanted, current) => {
    const before = current === undefined ? [] : firewallLines(current as FirewallRow)
    const after = firewallLines(wanted as FirewallRow)
    return {
      removed: before.filter((line) => !after.includes(line)),
      added: after.filter((line) => !before.includes(line)),
    }
  },
}

function parseRule(value: unknown): object {
  const rule = parseObject(ruleForms, value)
  const missing = ['direction', 'protocol', 'action'].find((field) => rule[field] === undefined)
  if (missing !== undefined) throw new InvalidValue(`${missing} is required`)
  return { ...ruleDefaults, ...rule }
}

function canonicalFirewall({ enabled, default_action: defaultAction, rules }: FirewallRow): FirewallRow {
  const wanted = rules.map(({ source_ip: sourceIp, ...rule }) => ({ ...rule, sourceIp, id: '' }))
  return firewallRow(checked(() => checkFirewall({ enabled, defaultAction, rules: wanted })))
}

function firewallRow({ enabled, defaultAction, rules }: Firewall): FirewallRow {
  return withoutIds({
    enabled,
    default_action: defaultAction,
    rules: rules.map(({ sourceIp, ...rule }) => ({ ...rule, source_ip: sourceIp })),
  })
}

/** Returns a firewall without the ids of its rules. The fields are always in the same order. */
function withoutIds({ enabled, default_action, rules }: FirewallRow): FirewallRow {
  return {
    enabled,
    default_action,
    rules: rules.map(({ direction, protocol, action, network, source_ip, port, description }) => {
      return { direction, protocol, action, network, source_ip, port, description }
    }),
  }
}

function writtenRule(rule: RuleRow): object {
  const defaults: Readonly<Record<string, string>> = ruleDefaults
  return Object.fromEntries(Object.entries(rule).filter(([name, value]) => defaults[name] !== value))
}

function firewallLines({ enabled, default_action: action, rules }: FirewallRow): string[] {
  return [
    enabled ? `on, default ${action}` : `off, default ${action}`,
    ...rules.map((rule, index) => `rule ${index + 1}: ${Object.values(writtenRule(rule)).join(' ')}`),
  ]
}

const placementForms = { group: text, labels: words, spread: text, together: text }
const noPlacement = { group: '', labels: [], spread: '', together: '' }

/** Rules by which the gateway chooses the host of a guest. `{}`: no rules. */
export const placement: Form = {
  parse: (value) => {
    const wanted = { ...noPlacement, ...parseObject(placementForms, value) }
    return { ...checked(() => parsePlacement(wanted), 'placement') }
  },
  read: (value) => {
    const { group, labels, spread, together } = { ...noPlacement, ...(value as typeof noPlacement | undefined) }
    return { group, labels: [...labels], spread, together }
  },
  write: (value) =>
    Object.fromEntries(Object.entries(value as typeof noPlacement).filter(([, part]) => part.length > 0)),
}
