import { Type, type Static } from 'typebox'
import type { TimeFormat } from '../../../shared/time.js'
import type { Fleet } from '../../fleet/contract.js'
import { route, type Route } from '../../http/route.js'
import { oneOf, timeSchema } from '../../http/schema.js'
import { upgradeSteps } from '../../join/host-upgrade.js'
import { runHostStates, runStates, type FleetRun, type RunHost } from '../../upgrades/fleet-run.js'
import type { FleetUpgrades } from '../../upgrades/fleet-upgrades.js'
import type { RunCommand } from '../../upgrades/plan-command.js'
import { upgradeErrors } from './upgrade.js'

const RunHostSchema = Type.Object({
  host_id: Type.String(),
  name: Type.String(),
  state: oneOf(
    runHostStates,
    '`done`: the host has the version of this upgrade or rollback. `skipped`: see `message`.',
  ),
  step: oneOf(
    [...upgradeSteps, ''],
    'Current or last step of the upgrade of this host. Empty: the upgrade of the host has not begun.',
  ),
  from: Type.String({ description: 'Version of the agent before the upgrade of the fleet.' }),
  version: Type.String({ description: 'Present version of the agent.' }),
  message: Type.String({ description: 'Reason why the host failed or was skipped.' }),
})
const RunSchema = Type.Object(
  {
    state: oneOf(
      ['none', ...runStates],
      '`none`: no upgrade of the fleet was ever started. `stopped`: a host failed, or the canary was skipped.',
    ),
    action: oneOf(['upgrade', 'rollback']),
    version: Type.String({ description: 'Version to which hosts are upgraded.' }),
    parallel: Type.Integer({ minimum: 1 }),
    canary_host_id: Type.String(),
    started_by: Type.String(),
    started_at: timeSchema('the upgrade of the fleet began', 'none was ever started'),
    ended_at: timeSchema('the upgrade of the fleet ended', 'it has not ended'),
    hosts: Type.Array(RunHostSchema),
  },
  { title: 'FleetUpgrade' },
)
const BeginBodySchema = Type.Object(
  {
    parallel: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 50,
        description: 'Number of hosts that are upgraded at the same time, after the canary. Default: 2.',
      }),
    ),
    canary_host_id: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          'Id of the host that is upgraded before all other hosts. Default: the host whose name is first in alphabetical order.',
      }),
    ),
  },
  { title: 'UpgradeFleet' },
)
const defaultParallel = 2

interface Parts {
  readonly fleet: Fleet
  readonly fleetUpgrades: FleetUpgrades
  readonly time: TimeFormat
}

const path = '/fleet/upgrade'
const common = { bound: 'refused', tag: 'Hosts', data: RunSchema } as const

export function fleetUpgradeRoutes(parts: Parts): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      path,
      name: 'getFleetUpgrade',
      scope: 'host:read',
      summary: 'Returns the last upgrade of the fleet with the state of each host',
      handle: () => ({ data: runRow(parts.fleetUpgrades.current, parts) }),
    }),
    beginRoute(parts),
    ...Object.entries(commands).map(([command, text]) => commandRoute(parts, command as RunCommand, text)),
  ]
}

function beginRoute(parts: Parts): Route {
  const { fleet, fleetUpgrades } = parts
  return route({
    ...common,
    method: 'POST',
    path,
    name: 'upgradeFleet',
    scope: 'host:manage',
    audit: 'fleet.upgrade',
    summary:
      'Upgrades the agents of all hosts to this gateway’s version: one canary host first, then several hosts at a time. The upgrade stops when a host fails. Offline hosts are skipped',
    body: BeginBodySchema,
    example: { parallel: 2 },
    statuses: [202],
    errors: [...upgradeErrors, 'up_to_date', 'invalid_state'],
    handle: async (context) => {
      const { body, caller, operationId } = context
      const { parallel = defaultParallel, canary_host_id: canaryHostId } = body
      context.audit({
        target: fleet.upgrades.version,
        detail: `${parallel} at a time, canary ${canaryHostId ?? 'chosen by the gateway'}`,
      })
      const request = { id: operationId, parallel, canaryHostId, startedBy: caller.user }
      const run = await fleetUpgrades.begin(fleet, request)
      return { status: 202, message: 'the upgrade of the fleet has started', data: runRow(run, parts) }
    },
  })
}

const commands: Readonly<Record<RunCommand, { readonly summary: string; readonly message: string }>> = {
  pause: {
    summary: 'Pauses the upgrade of the fleet. Hosts that are being upgraded continue',
    message: 'the upgrade of the fleet is paused',
  },
  resume: {
    summary: 'Resumes a paused or stopped upgrade of the fleet. Hosts that failed are tried again',
    message: 'the upgrade of the fleet continues',
  },
  cancel: {
    summary: 'Cancels the upgrade of the fleet. Hosts that are being upgraded continue',
    message: 'the upgrade of the fleet is canceled',
  },
  rollback: {
    summary:
      'Rolls back the fleet: each host that the upgrade of the fleet has upgraded gets its previous version again',
    message: 'the rollback of the fleet has started',
  },
}

function commandRoute(parts: Parts, command: RunCommand, { summary, message }: (typeof commands)[RunCommand]): Route {
  return route({
    ...common,
    method: 'POST',
    path: `${path}/${command}`,
    name: `${command}FleetUpgrade`,
    scope: 'host:manage',
    audit: `fleet.upgrade_${command}`,
    summary,
    statuses: [202],
    errors: ['invalid_state'],
    handle: async (context) => {
      const run = await parts.fleetUpgrades.command(command)
      context.audit({ target: run.version })
      return { status: 202, message, data: runRow(run, parts) }
    },
  })
}

const noRun: FleetRun = {
  id: '',
  state: 'done',
  action: 'upgrade',
  version: '',
  parallel: defaultParallel,
  canaryHostId: '',
  hosts: [],
  startedBy: '',
  startedAtMs: 0,
  endedAtMs: 0,
}

function runRow(run: FleetRun | null, { fleet, time }: Parts): Static<typeof RunSchema> {
  const { state, action, version, parallel, canaryHostId, hosts, startedBy, startedAtMs, endedAtMs } = run ?? noRun
  return {
    state: run ? state : 'none',
    action,
    version,
    parallel,
    canary_host_id: canaryHostId,
    started_by: startedBy,
    started_at: time.format(startedAtMs),
    ended_at: time.format(endedAtMs),
    hosts: hosts.map((host) => hostRow(host, fleet)),
  }
}

function hostRow({ hostId, name, state, from, message, upgradeId }: RunHost, { view }: Fleet) {
  const found = view.findHost(hostId)
  const upgrade = upgradeId !== '' && found?.upgrade?.id === upgradeId ? found.upgrade : undefined
  const step = upgrade?.step ?? ('' as const)
  const version = found?.description?.version ?? ''
  return { host_id: hostId, name: found?.name ?? name, state, step, from, version, message }
}
