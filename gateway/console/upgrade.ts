import { STATUS_CODES, type IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Logger } from 'pino'
import { WebSocketServer, type WebSocket } from 'ws'
import { BerthError, toBerthError } from '../../shared/errors.js'
import { sourceOf } from '../../shared/source-address.js'
import type { Access } from '../callers.js'
import { holdingOf } from '../access/principal.js'
import type { ConsoleOpener } from '../fleet/agent-contract.js'
import type { Fleet, GuestView } from '../fleet/contract.js'
import { errorReply } from '../http/errors.js'
import { credentialsOf, openExchange, type Exchange } from '../http/exchange.js'
import { checkHostHeader } from '../sockets/host-header.js'
import { collapseSlashes } from '../http/leniency.js'
import type { PanelSettings } from '../settings/panel-settings.js'
import type { AccessPolicies } from '../policy/access-policy.js'
import type { OpenSockets } from '../policy/open-sockets.js'
import { deniedByPolicy } from '../policy/denied.js'
import { originOf } from '../policy/source.js'
import { ConsoleSocket } from './console-socket.js'
import { Consoles, invalidTicket, type ConsoleHolder } from './consoles.js'
import { endingOfError } from './endings.js'
import { readOwnFrame, readScreenFrame, readTerminalFrame } from './frames.js'
import { isConsolePath, readOffer, type ConsoleOffer } from './offer.js'
import { mayOpen } from './origin.js'
import { describeUse, type ConsoleTickets, type Grant } from './tickets.js'
import { ownVoice, screenVoice, terminalVoice } from './voice.js'

export interface ConsoleUpgradeParts {
  readonly fleet: Fleet
  readonly access: Pick<Access, 'addresses' | 'audit' | 'grants' | 'shared'>
  readonly policies: AccessPolicies
  readonly openSockets: Pick<OpenSockets, 'forget'>
  readonly settings: Pick<PanelSettings, 'websshOrigins'>
  readonly tickets: ConsoleTickets
  readonly consoles: Consoles
  readonly log: Logger
}

interface UpgradeRequest {
  readonly request: IncomingMessage
  readonly connection: Duplex
  readonly head: Buffer
  readonly exchange: Exchange
}

const maxFrameBytes = 64 * 1024

/**
 * Answers requests for WebSockets of consoles. A request that is rejected for its address, Host header, origin,
 * handshake or form gets an HTTP error without an upgrade. Clients of `berth.console.v1` get other errors as a close
 * code after the upgrade, because scripts in browsers cannot read an HTTP status.
 */
export class ConsoleUpgrades {
  readonly #server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxFrameBytes,
    handleProtocols: (_offered, request) => this.#protocols.get(request) ?? false,
  })
  readonly #protocols = new WeakMap<IncomingMessage, string>()

  constructor(private readonly parts: ConsoleUpgradeParts) {}

  /** True if the request asks for a console. */
  matches({ method, url, headers }: IncomingMessage): boolean {
    if (method !== 'GET' || headers.upgrade?.toLowerCase() !== 'websocket') return false
    return isConsolePath(collapseSlashes(url ?? '').split('?', 1)[0] ?? '')
  }

  async answer(request: IncomingMessage, connection: Duplex, head: Buffer): Promise<void> {
    connection.on('error', () => undefined) // the client has disconnected
    this.parts.openSockets.forget(request.socket)
    // While the store is down, the last known access policy applies.
    await this.parts.access.shared.current().catch(() => undefined)
    const judgement = this.parts.policies.judge(originOf(request))
    const exchange = openExchange(request, judgement)
    const asked: UpgradeRequest = { request, connection, head, exchange }
    try {
      this.parts.access.addresses.enter(sourceOf(judgement.address), exchange)
      if (!judgement.allowed) throw deniedByPolicy()
      checkHostHeader(request)
      this.#checkOrigin(asked)
      checkHandshake(request)
      await this.#open(asked)
    } catch (error) {
      this.#refuse(asked, error)
    } finally {
      exchange.onGone.forEach((run) => run())
    }
  }

  /** Checks the origin of the page. @throws {BerthError} `origin_not_allowed` */
  #checkOrigin({ request, exchange }: UpgradeRequest): void {
    const { settings } = this.parts
    const { origin, host } = request.headers
    const scheme = exchange.secure ? 'https' : 'http'
    if (!mayOpen({ origin, host, scheme }, settings.websshOrigins.current))
      throw new BerthError('forbidden', 'origin_not_allowed', 'pages of this origin are not allowed to open consoles')
  }

  async #open(asked: UpgradeRequest): Promise<void> {
    const { request } = asked
    const url = new URL(collapseSlashes(request.url ?? '/'), 'http://localhost')
    const offer = readOffer(url, request.headers['sec-websocket-protocol'])
    if (!offer) throw new BerthError('invalid', 'invalid_request', 'the request for a console is malformed')
    try {
      const grant = await this.#redeem(offer, asked)
      await this.parts.fleet.expectedConnections(grant.guestUuid)
      const { caller, guest } = await this.parts.consoles.check(grant)
      const { address, requestId } = asked.exchange
      const holder = { grant, caller, origin: originOf(request), address, requestId, mode: offer.mode }
      await this.#serve(asked, offer, { holder, guest })
    } catch (error) {
      if (!offer.isOwn || !asked.connection.writable) throw error
      const ending = endingOfError(toBerthError(error, 'could not open a console').code)
      this.#note(asked, error)
      this.#upgrade(asked, offer, (socket) => {
        ownVoice.closing(socket, ending)
        socket.close(ending.code, ending.reason)
      })
    }
  }

  /** Exchanges the ticket for its rights. @throws {BerthError} `unauthorized` */
  async #redeem(
    { ticket, kind, container, mode }: ConsoleOffer,
    { request, exchange }: UpgradeRequest,
  ): Promise<Grant> {
    const { tickets, access, fleet } = this.parts
    const grant = ticket === undefined ? undefined : await tickets.redeem(ticket, kind)
    if (!grant || !access.grants.isBearer(grant.credential, credentialsOf(request, exchange))) throw invalidTicket()
    const named = fleet.view.findGuest(container)
    if (named !== undefined && named.guest.uuid !== grant.guestUuid) throw invalidTicket()
    if ((mode === 'run') !== (grant.command !== undefined)) throw invalidTicket()
    return grant
  }

  /** Opens the console after the audit entry has been stored. */
  async #serve(
    asked: UpgradeRequest,
    offer: ConsoleOffer,
    { holder, guest }: { holder: ConsoleHolder; guest: GuestView },
  ): Promise<void> {
    const { consoles, fleet } = this.parts
    const openStream = await fleet.agent(guest.hostId).consoleOpener()
    const place = consoles.enter(holder)
    let audited: ConsoleParts['audited'] | undefined
    try {
      const finish = (audited = await this.#audit(holder, guest, 'console.open'))
      const isUpgraded = this.#upgrade(asked, offer, (socket) => {
        const open = this.#connect(socket, offer, {
          holder,
          guest,
          openStream,
          audited: finish,
          ...place,
        })
        place.opened(open)
      })
      if (!isUpgraded) throw badHandshake() // for example, the client has disconnected
    } catch (error) {
      place.leave()
      void audited?.(false, toBerthError(error, 'could not open a console').code)
      throw error
    }
  }

  #connect(socket: WebSocket, offer: ConsoleOffer, parts: ConsoleParts): ConsoleSocket {
    const { holder, guest, openStream } = parts
    const isScreen = offer.kind === 'vnc'
    const started = performance.now()
    const what = describeUse(offer.mode, holder.grant)
    let finished = (success: boolean, detail: string): void => {
      finished = () => undefined
      void parts.audited(success, detail)
    }
    const open: ConsoleSocket = new ConsoleSocket({
      socket,
      openStream,
      reconnect: async () => this.parts.fleet.agent(guest.hostId).consoleOpener(),
      voice: offer.isOwn ? ownVoice : isScreen ? screenVoice : terminalVoice,
      readFrame: offer.isOwn ? readOwnFrame : isScreen ? readScreenFrame : readTerminalFrame,
      start: {
        guestUuid: guest.guest.uuid,
        mode: offer.mode,
        size: offer.size,
        principal: holder.grant.principal,
        ...holdingOf(holder.caller),
        resume: offer.resume,
        received: offer.received,
        keep: offer.isOwn && offer.mode !== 'run',
        command: [...(holder.grant.command ?? [])],
      },
      onReady: () => finished(true, offer.resume === '' ? what : `${what}, resumed`),
      onEnd: (ending) => {
        parts.leave()
        finished(false, ending.reason)
        const seconds = Math.round((performance.now() - started) / 1000)
        const { passed } = open
        const detail = `${what}, ${seconds} s, ${passed.in} bytes in, ${passed.out} out, ${ending.reason}`
        void this.#auditClose(holder, guest, detail)
        this.parts.log.info({ request_id: holder.requestId, guest: guest.guest.name, detail }, 'a console was closed')
      },
    })
    return open
  }

  async #audit(
    { caller, address, requestId }: ConsoleHolder,
    { guest }: GuestView,
    action: string,
  ): Promise<ConsoleParts['audited']> {
    const { audit } = this.parts.access
    const entry = await audit.begin({ action, caller, address, requestId, target: guest.name })
    return (success, detail) =>
      audit
        .finish(entry, { success, target: guest.name, detail, containerUuid: guest.uuid })
        .catch((err: unknown) =>
          this.parts.log.error({ err }, 'could not write the start of a console to the audit log'),
        )
  }

  async #auditClose(holder: ConsoleHolder, guest: GuestView, detail: string): Promise<void> {
    try {
      const finish = await this.#audit(holder, guest, 'console.close')
      await finish(true, detail)
    } catch (err) {
      this.parts.log.error({ err, detail }, 'could not record in the audit log that a console was closed')
    }
  }

  /** Upgrades the connection. @returns false if `ws` rejects the handshake or the client has disconnected */
  #upgrade(
    { request, connection, head }: UpgradeRequest,
    { protocol }: ConsoleOffer,
    then: (socket: WebSocket) => void,
  ): boolean {
    let isUpgraded = false
    if (protocol !== undefined) this.#protocols.set(request, protocol)
    this.#server.handleUpgrade(request, connection, head, (socket) => {
      isUpgraded = true
      then(socket)
    })
    return isUpgraded
  }

  #refuse({ request, connection, exchange }: UpgradeRequest, error: unknown): void {
    this.#note({ request, exchange }, error)
    if (connection.writableEnded) return // `ws` has answered and closes the connection
    if (!connection.writable) return void connection.destroy()
    const { status, headers, body } = errorReply(error, exchange.requestId)
    const lines = {
      ...headers,
      'Content-Length': Buffer.byteLength(body),
      'X-Request-Id': exchange.requestId,
    }
    connection.end(
      [
        `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
        ...Object.entries(lines).map(([name, value]) => `${name}: ${value}`),
        'Connection: close',
        '',
        body,
      ].join('\r\n'),
    )
  }

  #note({ request, exchange }: Pick<UpgradeRequest, 'request' | 'exchange'>, error: unknown): void {
    const known = toBerthError(error, 'could not open a console')
    const level = known.kind === 'internal' ? 'error' : 'info'
    this.parts.log[level](
      {
        request_id: exchange.requestId,
        address: exchange.address,
        code: known.code,
        path: request.url?.split('?', 1)[0]?.slice(0, 256), // a query can contain a ticket
        ...(level === 'error' && { err: error }),
      },
      'a console was refused',
    )
  }
}

/** Rejects a malformed handshake before the client's ticket is used up. @throws {BerthError} `invalid_request` */
function checkHandshake({ headers }: IncomingMessage): void {
  const version = headers['sec-websocket-version'] ?? ''
  const isKey = /^[+/0-9A-Za-z]{22}==$/.test(headers['sec-websocket-key'] ?? '')
  if (isKey && ['8', '13'].includes(version)) return
  throw badHandshake()
}

function badHandshake(): BerthError {
  return new BerthError('invalid', 'invalid_request', 'the WebSocket handshake is malformed')
}

interface ConsoleParts {
  readonly holder: ConsoleHolder
  readonly guest: GuestView
  readonly openStream: ConsoleOpener
  readonly audited: (success: boolean, detail: string) => Promise<void>
  readonly leave: () => void
}
