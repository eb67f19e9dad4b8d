import type { ServiceError } from '@grpc/grpc-js'
import { spawn, type ChildProcess } from 'node:child_process'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Guest, GuestSpec } from '../../../proto/gen/berth/agent/v1/guest.js'
import type {
  Firewall,
  GuestSettingsServiceClient,
  LimitsChange,
  PortMappingChange,
  TrafficLimitChange,
} from '../../../proto/gen/berth/agent/v1/network.js'
import {
  call,
  changeSetting,
  createGuest,
  createRequest,
  operationDone,
  operationEnded,
  powerOrder,
  submit,
  wireMapping,
  type PowerAction,
  type WireChange,
} from './agent-calls.js'
import type { AgentProcess } from './agent-process.js'
import { lxc, type GuestKind } from '../guests/guest-kinds.js'
import { waitFor } from '../wait.js'
import { WatchedHost } from './watched-host.js'

const unsent = {
  mapping: {
    containerPort: undefined,
    hostPort: undefined,
    protocol: undefined,
    description: undefined,
    hostIp: undefined,
    containerPortEnd: undefined,
    hostPortEnd: undefined,
  },
  limits: {
    vcpuMilli: undefined,
    ramMb: undefined,
    networkDownMbps: undefined,
    networkUpMbps: undefined,
    ioReadMbps: undefined,
    ioWriteMbps: undefined,
    diskGb: undefined,
  },
  traffic: {
    mode: undefined,
    monthlyGb: undefined,
    inGb: undefined,
    outGb: undefined,
    action: undefined,
    throttleMbps: undefined,
    resetDay: undefined,
  },
}

/** Returns the stable code of a refusal, or `accepted`. */
export function codeOf(work: Promise<unknown>): Promise<string> {
  return work.then(() => 'accepted', codeOfError)
}

function codeOfError(error: unknown): string {
  return String((error as ServiceError).metadata?.get('berth-code')[0] ?? error)
}

/** Resolves with everything that the peer sends until it closes the connection; empty without an answer. */
export function askPeer(host: string, port: number): Promise<string> {
  return new Promise((done) => {
    let text = ''
    const socket = connect({ host, port, timeout: 500 })
    socket.on('data', (chunk: Buffer) => (text += chunk.toString()))
    socket.on('timeout', () => socket.destroy())
    socket.on('error', () => socket.destroy())
    socket.on('close', () => done(text))
  })
}

/** A real agent of its own, for tests of the settings of guests with BusyBox. */
export class SettingsHost {
  client!: GuestSettingsServiceClient
  #watched: WatchedHost | undefined

  private constructor(readonly agent: AgentProcess) {}

  /** Starts the agent; if that fails, everything is removed. @param kinds kinds of the guests that will be created */
  static async open(agent: AgentProcess, kinds: readonly GuestKind[] = [lxc]): Promise<SettingsHost> {
    const host = new SettingsHost(agent)
    try {
      await host.#begin(kinds)
      return host
    } catch (error) {
      await agent.destroy()
      throw error
    }
  }

  async #begin(kinds: readonly GuestKind[]): Promise<void> {
    const { agent } = this
    await agent.start()
    await agent.ready()
    await agent.kill('SIGTERM')
    for (const kind of kinds) await kind.installImage(join(agent.directory, 'pool'))
    await this.start()
  }

  async start(): Promise<void> {
    await this.agent.start()
    await this.agent.ready()
    this.client = this.agent.settings()
    this.#watched = new WatchedHost(this.agent.watch())
  }

  /** Closes the clients, even if the agent is dead. */
  disconnect(): void {
    this.client?.close()
    this.#watched?.close()
  }

  async restart(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    this.disconnect()
    await this.agent.kill(signal)
    await this.start()
  }

  async destroy(): Promise<void> {
    this.disconnect()
    await this.agent.destroy()
  }

  /** Creates a guest and waits until it exists. @returns its UUID */
  async create(id: number, name: string, spec: Partial<GuestSpec> = {}): Promise<string> {
    const { uuid, operationId } = await this.orderCreate(id, name, spec)
    await this.done(operationId)
    return uuid
  }

  async orderCreate(
    id: number,
    name: string,
    spec: Partial<GuestSpec> = {},
  ): Promise<{ uuid: string; operationId: string }> {
    const request = createRequest(id, name, { assignNat: false, portMappings: [], ...spec })
    const operations = this.agent.operations()
    await createGuest(operations, request).finally(() => operations.close())
    return request
  }

  async done(operationId: string): Promise<void> {
    const operations = this.agent.operations()
    await operationDone(operations, operationId).finally(() => operations.close())
  }

  /** Submits a power action and waits for its end. @returns `done`, or the code of the failure or refusal */
  async power(action: PowerAction, uuid: string): Promise<string> {
    const operations = this.agent.operations()
    try {
      const ended = await operationEnded(operations, await this.order(action, uuid))
      return ended.errorCode || 'done'
    } catch (error) {
      return codeOfError(error)
    } finally {
      operations.close()
    }
  }

  /** Submits a power action. @returns the id of the operation */
  async order(action: PowerAction, uuid: string): Promise<string> {
    const operations = this.agent.operations()
    const { operation } = await submit(operations, powerOrder(action, uuid)).finally(() => operations.close())
    return operation!.id
  }

  /** Starts a server in the guest that answers each connection with `hello`. @param name name of the guest in lxc */
  answerInside(name: string, port: number): ChildProcess {
    return spawn('lxc-attach', [
      '-P',
      join(this.agent.directory, 'state', 'lxc'),
      '-n',
      name,
      '--clear-env',
      '--',
      'busybox',
      'timeout',
      '60',
      'nc',
      '-ll',
      '-p',
      `${port}`,
      '-e',
      'printf',
      'hello',
    ])
  }

  guests(): Guest[] {
    return this.#watched?.guests() ?? []
  }

  /** Returns the guest in the form that the agent sends to watchers. */
  guest(uuid: string): Guest {
    return this.guests().find((one) => one.uuid === uuid)!
  }

  seen(uuid: string, revision: number): Promise<Guest> {
    return waitFor(() => {
      const found = this.guest(uuid)
      return found && found.revision >= revision ? found : undefined
    })
  }

  addMapping(uuid: string, fields: Parameters<typeof wireMapping>[0], ifRevision = 0) {
    return this.#change({ $case: 'addPortMapping', value: wireMapping(fields) }, uuid, ifRevision)
  }

  updateMapping(uuid: string, index: number, fields: Partial<PortMappingChange>, ifRevision = 0) {
    const change = { ...unsent.mapping, ...fields }
    return this.#change({ $case: 'updatePortMapping', value: { index, change } }, uuid, ifRevision)
  }

  removeMapping(uuid: string, index: number, ifRevision = 0) {
    return this.#change({ $case: 'removePortMapping', value: index }, uuid, ifRevision)
  }

  async removeMappings(uuid: string): Promise<void> {
    while (this.guest(uuid).portMappings.length > 0) await this.seen(uuid, (await this.removeMapping(uuid, 0)).revision)
  }

  async firewall(uuid: string): Promise<Firewall> {
    return (await call(this.client.getFirewall.bind(this.client), { uuid })).firewall!
  }

  setFirewall(uuid: string, firewall: Firewall, ifRevision = 0) {
    return this.#change({ $case: 'firewall', value: firewall }, uuid, ifRevision)
  }

  setLimits(uuid: string, fields: Partial<LimitsChange>, ifRevision = 0) {
    return this.#change({ $case: 'limits', value: { ...unsent.limits, ...fields } }, uuid, ifRevision)
  }

  setTrafficLimit(uuid: string, fields: Partial<TrafficLimitChange>, ifRevision = 0) {
    return this.#change({ $case: 'trafficLimit', value: { ...unsent.traffic, ...fields } }, uuid, ifRevision)
  }

  resetTraffic(uuid: string) {
    return this.#change({ $case: 'resetTraffic', value: {} }, uuid)
  }

  setExpiry(uuid: string, expiresAtMs: number, ifRevision = 0) {
    return this.#change({ $case: 'expiresAtMs', value: expiresAtMs }, uuid, ifRevision)
  }

  assignIpv6(uuid: string, addresses: readonly string[], ifRevision = 0) {
    const value = { count: 0, addresses: [...addresses] }
    return this.#change({ $case: 'assignIpv6', value }, uuid, ifRevision)
  }

  change(uuid: string, change: WireChange) {
    return this.#change(change, uuid)
  }

  #change(change: WireChange, uuid: string, ifRevision = 0) {
    return changeSetting(this.client, change, { uuid, ifRevision })
  }
}
