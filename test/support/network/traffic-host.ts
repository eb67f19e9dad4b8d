import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { AgentConfigSchema } from '../../../agent/config.js'
import {
  openFirewall,
  unlimitedTraffic,
  type GuestRecord,
  type TrafficLimit,
} from '../../../agent/guests/record/record.js'
import { PolicySettings } from '../../../agent/guests/settings/policy.js'
import { GuestStore } from '../../../agent/guests/record/guest-store.js'
import type { GuestRates, WantedNetwork } from '../../../agent/network/contract.js'
import { Changes } from '../../../agent/state/changes.js'
import { openDatabase } from '../../../agent/state/database.js'
import { SteadyClock } from '../../../shared/steady-clock.js'
import { TrafficKeeper } from '../../../agent/traffic/keeper.js'
import { validateConfig } from '../../../shared/config.js'
import { createTimeFormat } from '../../../shared/time.js'

export const time = createTimeFormat('UTC')
/** Converts a time to ms since 1970. */
export const at = (text: string): number => time.parseField('at', text)
export const config = validateConfig(AgentConfigSchema, { time_zone: 'UTC', traffic: { throttle_mbps: 7 } }, 'test')

/** A host as the traffic keeper sees it. A test can start several traffic keepers on it, one after another. */
export class TrafficHost {
  readonly #directory = mkdtempSync(join(tmpdir(), 'btest-traffic-'))
  readonly counters = new Map<string, { rxBytes: number; txBytes: number }>()
  readonly stopped: string[] = []
  rates: GuestRates[] = []
  nowMs = at('2026-11-21 12:00:00')
  boot = 1
  countersFail = false
  busy = false
  store!: GuestStore
  keeper!: TrafficKeeper
  clock!: SteadyClock
  /** If false, the keeper trusts the clock only after a stable period, as after a boot of the host. */
  trustsClock = true
  /** UUIDs of guests whose start was submitted. */
  readonly started: string[] = []
  /** Monotonic time. Default: `nowMs`. The two clocks then agree, so that a change of `nowMs` is not a jump. */
  monotonicMs: number | undefined
  settings!: PolicySettings

  constructor() {
    this.open()
  }

  open(): void {
    this.store = new GuestStore(new Changes(openDatabase(join(this.#directory, 'journal.db'))))
    const { store } = this
    const readCounters = (): Promise<ReadonlyMap<string, { rxBytes: number; txBytes: number }>> =>
      this.countersFail ? Promise.reject(new Error('nft died')) : Promise.resolve(structuredClone(this.counters))
    const attach = ({ device, downMbps, upMbps, cut }: WantedNetwork): Promise<void> =>
      Promise.resolve(void this.rates.push({ device, downMbps, upMbps, cut: cut ?? false }))
    const context = {
      config,
      store,
      log: pino({ level: 'silent' }),
      now: () => this.clock.now(),
      network: { readCounters, attach },
    }
    this.clock = new SteadyClock({ wall: () => this.nowMs, monotonic: () => this.monotonicMs ?? this.nowMs })
    if (this.trustsClock) this.clock.trust()
    this.keeper = new TrafficKeeper({
      context,
      clock: this.clock,
      busy: () => this.busy,
      stop: (uuid) => {
        this.stopped.push(uuid)
        store.update(uuid, { status: 'stopped', wanted: 'stopped' })
      },
      start: (uuid) => {
        this.started.push(uuid)
        store.update(uuid, { status: 'running', wanted: 'running' })
      },
      bootId: `boot-${this.boot}`,
    })
    this.settings = new PolicySettings(context, this.keeper)
  }

  /** Starts a new agent with the journal of the old one, without a shutdown of the old one. */
  crash(): void {
    this.store.changes.db.close()
    this.open()
  }

  reboot(): void {
    this.boot += 1
    this.counters.clear()
    this.crash()
  }

  destroy(): void {
    this.store.changes.db.close()
    rmSync(this.#directory, { recursive: true })
  }

  guest(id: number, given: Partial<GuestRecord> = {}): string {
    const uuid = `guest-${id}`
    const limits = {
      vcpuMilli: 1000,
      ramMb: 512,
      diskGb: 1,
      networkDownMbps: 100,
      networkUpMbps: 5,
      ioReadMbps: 0,
      ioWriteMbps: 0,
    }
    this.store.insert({
      uuid,
      id,
      name: `g${id}`,
      spec: { virtualization: 'lxc', templateId: 't', limits },
      status: 'running',
      wanted: 'running',
      userIdSlot: id,
      ipv4: `10.0.0.${id}`,
      mac: `02:${id}`,
      login: null,
      hasPassword: false,
      portMappings: [],
      publicIpv4s: [],
      ipv6Addresses: [],
      firewall: openFirewall,
      traffic: unlimitedTraffic,
      expiresAtMs: 0,
      createdAtMs: at('2026-01-01 00:00:00'),
      ...given,
    })
    return uuid
  }

  receive(uuid: string, rxBytes: number, txBytes = 0): void {
    const have = this.counters.get(uuid) ?? { rxBytes: 0, txBytes: 0 }
    this.counters.set(uuid, { rxBytes: have.rxBytes + rxBytes, txBytes: have.txBytes + txBytes })
  }

  used(uuid: string): [number, number] {
    const { rxBytes, txBytes } = this.keeper.readUse(this.store.get(uuid))
    return [rxBytes, txBytes]
  }

  limit(uuid: string, limit: Partial<TrafficLimit>): Promise<void> {
    this.store.update(uuid, { traffic: { ...this.store.get(uuid).traffic, ...limit } })
    return this.keeper.judge(uuid)
  }

  reset(uuid: string): Promise<GuestRecord> {
    return this.settings.resetTraffic({ uuid, ifRevision: 0 })
  }

  policy(uuid: string): GuestRecord['policy'] {
    return this.store.get(uuid).policy
  }
}
