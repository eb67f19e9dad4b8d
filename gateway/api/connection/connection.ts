import { Type, type Static } from 'typebox'
import type { ConnectionStep, DiagnoseConnectionResponse } from '../../../proto/gen/berth/agent/v1/guest.js'
import { parseAddress } from '../../../shared/addresses.js'
import { invalidField } from '../../../shared/errors.js'
import type { Principal } from '../../access/principal.js'
import { coversScope } from '../../access/scopes.js'
import type { Fleet, GuestView } from '../../fleet/contract.js'
import { revisionEtag } from '../../http/if-match.js'
import { route, type Route } from '../../http/route.js'
import { oneOf } from '../../http/schema.js'
import { firewallRow } from '../network/firewall.js'
import { ContainerPathSchema } from '../guests/containers.js'
import { judgeAddress, type JudgedAddress } from '../guests/shown-address.js'
import { addressCodes } from '../guests/plan-address-step.js'
import { planRepair, RepairSchema, type ConnectionFailure, type ConnectionRepair } from './plan-repair.js'

/** The condition that each step checks, in the order in which the API returns the steps. */
const stepTexts = {
  allowed: 'the container is not blocked by suspension, expiry, quota or abuse',
  running: 'the container is running',
  listening: 'a program in the container listens on the port',
  mapping: 'the port can be reached from outside, through a mapping or a public address',
  address: 'the address that is shown to sub-users leads to the host',
  firewall: 'the firewall of the container accepts connections from `source`',
  guest: 'the host can connect to the container',
  connection: 'a connection through the mapping succeeds',
} as const
type StepName = keyof typeof stepTexts
const names = Object.keys(stepTexts) as StepName[]

const codeTexts = {
  suspended: 'the container is suspended',
  expired: 'the container has expired',
  traffic_used_up: 'the traffic quota of the container is used up',
  stopped_for_abuse: 'the container was stopped because of abuse',
  throttled: 'the container is throttled because its traffic quota is used up',
  not_running: 'the container is not running',
  nothing_listens: 'no program in the container listens on the port',
  listens_on_loopback: 'the program listens only on the loopback address of the container',
  not_visible: 'the host cannot see which ports a virtual machine listens on',
  no_mapping: 'no port of the host is mapped to this port',
  address_missing: 'the address of the mapping does not belong to the host',
  ...addressCodes,
  firewall_drops: 'the firewall of the container drops the connection',
  guest_silent: 'the container does not answer: a firewall inside it drops the connection, or the system hangs',
  guest_refuses: 'the container refuses the connection although a program listens: a firewall inside it may reject it',
  host_not_let_in:
    'the firewall of the container does not accept connections from the host, so no connection was tried',
  not_forwarded: 'the host does not forward the connection',
  earlier_step_failed: 'an earlier step failed',
} as const
type StepCode = keyof typeof codeTexts
const codes = Object.keys(codeTexts) as StepCode[]

const listed = (texts: Readonly<Record<string, string>>): string =>
  Object.entries(texts)
    .map(([word, text]) => `\`${word}\`: ${text}`)
    .join('; ')

const StepSchema = Type.Object(
  {
    name: oneOf(names, `${listed(stepTexts)}.`),
    state: oneOf(['ok', 'failed', 'skipped']),
    code: Type.Union([oneOf(codes), Type.Literal('')], {
      description: `Problem that the step found. Empty: it found none. ${listed(codeTexts)}.`,
    }),
    message: Type.String({
      description: 'Explanation of the problem that `code` names. Empty: the step found no problem.',
    }),
  },
  { title: 'ConnectionStep' },
)
type StepRow = Static<typeof StepSchema>

const DiagnosisSchema = Type.Object(
  {
    reachable: Type.Boolean({ description: '`true`: no step failed.' }),
    failed_step: Type.Union([oneOf(names), Type.Null()], {
      description: 'Name of the first step that failed. `null`: no step failed.',
    }),
    code: Type.String({ description: 'Code of the failed step. Empty: no step failed.' }),
    steps: Type.Array(StepSchema, {
      description: 'Results of all steps, in the order of the checks: from the container outwards.',
    }),
    container_port: Type.Integer(),
    source: Type.String({ description: 'Client address for which the firewall of the container was checked.' }),
    address: Type.String({
      description: 'Address to which clients connect from outside. Empty: every address of the host.',
    }),
    port: Type.Integer({
      description:
        'Port to which clients connect from outside. 0: the port of the container cannot be reached from outside.',
    }),
    shown_address: Type.String({
      description:
        'Address that is shown to sub-users: an address of the container, or the public address of the host. Empty: not known.',
    }),
    listening_ports: Type.Array(Type.Integer(), {
      description:
        'TCP ports on which the container listens instead, if no program listens on the checked port. Otherwise empty.',
    }),
    repair: Type.Union([RepairSchema, Type.Null()], {
      description:
        'Request that would fix the problem. `null`: no request can fix it, or the caller is not allowed to send it.',
    }),
  },
  { title: 'ConnectionDiagnosis' },
)

const DiagnosisQuery = Type.Object({
  port: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 65_535, description: 'TCP port of the container. Default: 22.' }),
  ),
  source: Type.Optional(
    Type.String({
      maxLength: 64,
      description: 'Address of the client that cannot connect. Default: the address of the caller.',
    }),
  ),
})

/** Route that finds out why a port of a container cannot be reached, and proposes a repair. It changes nothing. */
export function connectionRoute(fleet: Fleet): Route {
  return route({
    method: 'GET',
    path: '/containers/{id}/connection',
    name: 'diagnoseConnection',
    subUser: 'allowed',
    scope: 'container:read',
    bound: 'guest',
    tag: 'Containers',
    summary: 'Finds out why a TCP port of a container, by default SSH, cannot be reached, and suggests a fix',
    params: ContainerPathSchema,
    query: DiagnosisQuery,
    data: DiagnosisSchema,
    errors: ['host_offline', 'agent_timeout'],
    handle: async ({ guest, query: { port = 22, source: asked }, caller, address }) => {
      const source = parseSource(asked ?? address)
      const { uuid } = guest.guest
      const found = await fleet.agent(guest.hostId).guests.diagnoseConnection({ uuid, port, source })
      const told = diagnosisRow(found, await judgeAddress(fleet.view, guest, found))
      const failing = { guestId: guest.guest.id, port, code: told.code }
      const repair = planRepair(await withFirewall(fleet, guest, caller, failing), caller)
      return { data: { ...told, container_port: port, source, repair } }
    },
  })
}

/** @throws {BerthError} `invalid_field` */
function parseSource(text: string): string {
  const address = parseAddress(text.trim().replace(/^::ffff:(?=\d+\.)/i, ''))
  if (!address) throw invalidField('source', 'source: must be an IP address')
  return address.text
}

/** Adds the present firewall to a failure that the firewall causes, if the caller may change the firewall. */
async function withFirewall(
  fleet: Fleet,
  { hostId, guest: { uuid } }: GuestView,
  { scopes }: Principal,
  failing: ConnectionFailure,
): Promise<ConnectionFailure> {
  if (failing.code !== 'firewall_drops' || !coversScope(scopes, 'container:network')) return failing
  const { firewall, revision } = await fleet.agent(hostId).settings.getFirewall({ uuid })
  return { ...failing, firewall: firewallRow(firewall), firewallEtag: revisionEtag(revision, Buffer.of()) }
}

type ShownDiagnosis = Omit<Static<typeof DiagnosisSchema>, 'container_port' | 'source' | 'repair'> & {
  readonly repair?: ConnectionRepair
}

/** Converts a diagnosis for the API. Steps and codes that this gateway does not know are omitted. */
function diagnosisRow(
  { steps, address, outsidePort, listeningPorts }: DiagnoseConnectionResponse,
  shown: JudgedAddress,
): Omit<ShownDiagnosis, 'repair'> {
  const mapping = steps.find(({ name }) => name === 'mapping')
  const addressStep = mapping && {
    name: 'address',
    ...(mapping.state === 'ok' ? shown.verdict : { state: 'skipped', code: 'earlier_step_failed' }),
  }
  const all = [...steps.filter(({ name }) => name !== 'address'), ...(addressStep ? [addressStep] : [])]
  const rows = names.flatMap((name) =>
    all
      .filter((step) => step.name === name)
      .slice(0, 1)
      .map(stepRow),
  )
  const failed = rows.find(({ state }) => state === 'failed')
  return {
    reachable: failed === undefined,
    failed_step: failed?.name ?? null,
    code: failed?.code ?? '',
    steps: rows,
    address: parseAddress(address)?.text ?? '',
    port: isPort(outsidePort) ? outsidePort : 0,
    shown_address: shown.address,
    listening_ports: listeningPorts.slice(0, 20).filter(isPort),
  }
}

function stepRow({ name, state, code }: ConnectionStep): StepRow {
  const known = codes.find((word) => word === code) ?? ''
  return {
    name: name as StepName,
    state: state === 'ok' || state === 'failed' ? state : 'skipped',
    code: known,
    message: known === '' ? '' : codeTexts[known],
  }
}

function isPort(port: number): boolean {
  return port > 0 && port <= 65_535
}
