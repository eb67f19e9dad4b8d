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
import { ContainerPathSchema } from './containers.js'
import { judgeAddress, type JudgedAddress } from './shown-address.js'
import { addressCodes } from './plan-address-step.js'
import { planRepair, RepairSchema, type ConnectionFailure, type ConnectionRepair } from './plan-repair.js'

/** What each step looks at, from the container outwards. */
const stepTexts = {
  allowed: 'whether it is blocked: suspension, expiry, quota, abuse',
  running: 'whether it runs',
  listening: 'whether a program in it listens on the port',
  mapping: 'whether the port is reached from outside: by a mapping, or a public address',
  address: 'whether the address that customers are given leads to the host',
  firewall: 'whether its firewall lets `source` in',
  guest: 'a connection from the host to the container',
  connection: 'a connection through the mapping',
} as const
type StepName = keyof typeof stepTexts
const names = Object.keys(stepTexts) as StepName[]

const codeTexts = {
  suspended: 'the container is suspended',
  expired: 'it has expired',
  traffic_used_up: 'its traffic quota is used up',
  stopped_for_abuse: 'it was stopped for abuse',
  throttled: 'it is slow, as its traffic quota is used up',
  not_running: 'it does not run',
  nothing_listens: 'nothing in it listens on the port',
  listens_on_loopback: 'what listens does so for the container itself alone',
  not_visible: 'what listens in a virtual machine is not seen from outside',
  no_mapping: 'no port of the host leads to it',
  address_missing: 'the address of the mapping is none of the host',
  ...addressCodes,
  firewall_drops: 'its firewall drops the connection',
  guest_silent: 'the container does not answer: a firewall inside it, or it hangs',
  guest_refuses: 'the container refuses, though something listens: a firewall inside it',
  host_not_let_in: 'its firewall does not let the host in, so nothing was tried',
  not_forwarded: 'the host does not pass the connection on',
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
      description: `Why it is not simply ok. ${listed(codeTexts)}.`,
    }),
    message: Type.String({ description: 'The code in words; empty: ok.' }),
  },
  { title: 'ConnectionStep' },
)
type StepRow = Static<typeof StepSchema>

const DiagnosisSchema = Type.Object(
  {
    reachable: Type.Boolean({ description: 'No step failed.' }),
    failed_step: Type.Union([oneOf(names), Type.Null()], { description: 'The first that failed.' }),
    code: Type.String({ description: 'Of that step; empty: none failed.' }),
    steps: Type.Array(StepSchema, { description: 'From the container outwards.' }),
    container_port: Type.Integer(),
    source: Type.String({ description: 'Whom the firewall was asked about.' }),
    address: Type.String({
      description: 'Where the port is reached from outside; empty: at every address of the host.',
    }),
    port: Type.Integer({ description: 'There; 0: nowhere.' }),
    shown_address: Type.String({
      description:
        'The address that customers are given: an address of the container, or the public address of the host. Empty: not known.',
    }),
    listening_ports: Type.Array(Type.Integer(), {
      description: 'Other ports that it listens on, where nothing listens on this one.',
    }),
    repair: Type.Union([RepairSchema, Type.Null()], {
      description: 'The request that would mend it; null: none, or none that this caller may send.',
    }),
  },
  { title: 'ConnectionDiagnosis' },
)

const DiagnosisQuery = Type.Object({
  port: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 65_535, description: 'TCP port of the container; default 22.' }),
  ),
  source: Type.Optional(
    Type.String({ maxLength: 64, description: 'Address of who cannot connect; default: the caller’s.' }),
  ),
})

/** Why a port of a container cannot be reached, and what would mend it. It changes nothing. */
export function connectionRoute(fleet: Fleet): Route {
  return route({
    method: 'GET',
    path: '/containers/{id}/connection',
    name: 'diagnoseConnection',
    subUser: 'allowed',
    scope: 'container:read',
    bound: 'guest',
    tag: 'Containers',
    summary:
      'Why a port of a container, SSH unless told otherwise, cannot be reached, and what would mend it',
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

/** The rules of now, for who may change them. */
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

/** Leaves out what an agent says beyond the words known here. */
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
