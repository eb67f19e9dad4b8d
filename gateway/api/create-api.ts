import type Koa from 'koa'
import { Consoles } from '../console/consoles.js'
import { ConsoleTickets } from '../console/tickets.js'
import { ConsoleUpgrades } from '../console/upgrade.js'
import type { Store } from '../store/store.js'
import { ticketRoutes } from './consoles/tickets.js'
import { createMetrics } from '../metrics.js'
import { createApp } from '../http/app.js'
import { cliPages } from '../http/cli-download.js'
import { documentPages } from '../http/docs.js'
import { healthPages, type MetricsReaders } from '../http/health.js'
import { buildOpenApi } from '../http/openapi.js'
import { panelPages } from '../http/panel.js'
import type { Route } from '../http/route.js'
import { OpenSockets } from '../policy/open-sockets.js'
import { callerRoute } from './access/caller.js'
import { linkPages } from './sub-users/link-pages.js'
import { tagTexts } from './tags.js'
import { allRoutes, type RouteParts } from './all-routes.js'

export interface ApiOptions extends RouteParts {
  readonly store: Store
  readonly maxBodyBytes: number
  readonly metricsFor: MetricsReaders
  /** Directory of the built panel. Absent: `/` redirects to the documentation. */
  readonly panelDirectory?: string
  /** Built file of the command line. Absent: it cannot be downloaded. */
  readonly cliFile?: string
  isClosing(): boolean
}

export interface Api {
  readonly app: Koa
  readonly routes: readonly Route[]
  /** The OpenAPI 3.1 document of the API. It is built when it is first read. */
  readonly document: object
  readonly upgrades: ConsoleUpgrades
  readonly consoles: Consoles
}

export function createApi(options: ApiOptions): Api {
  const { fleet, access, log, policies, settings } = options
  const tickets = new ConsoleTickets(options.store, options.now)
  const consoles = new Consoles({ view: fleet.view, grants: access.grants, policies, log })
  const openSockets = new OpenSockets(policies)
  const upgrades = new ConsoleUpgrades({ fleet, access, policies, openSockets, settings, tickets, consoles, log })
  const routes: Route[] = [
    ...allRoutes(options),
    ...ticketRoutes({ view: fleet.view, tickets }),
    callerRoute({ authorize: access.authorize, routes: () => routes }),
  ]
  let document: object | undefined
  const readDocument = (): object => (document ??= buildOpenApi(routes, { version: options.version, tags: tagTexts }))
  const metrics = createMetrics({
    view: fleet.view,
    health: access.health,
    tls: options.tls,
    store: options.store,
    leases: [
      options.webhooks.lease,
      options.fleetUpgrades.lease,
      options.drains.lease,
      options.balancing.lease,
      options.maintenance.lease,
      fleet.relocation.keeper.lease,
      fleet.rotation.lease,
    ],
    rotation: fleet.rotation,
    gateways: options.gateways,
    drains: options.drains,
    balancing: options.balancing,
    events: options.events,
    maintenance: options.maintenance,
  })
  const isClosing = () => options.isClosing()
  const pages = [
    ...healthPages({
      store: access.health,
      metrics,
      fleet,
      access,
      metricsFor: options.metricsFor,
      isClosing,
    }),
    ...(options.panelDirectory === undefined
      ? []
      : panelPages({
          directory: options.panelDirectory,
          hasSetupLink: () => access.accounts.admins.hasLink(),
          brand: settings.brand,
        })),
    ...(options.cliFile === undefined ? [] : cliPages(options.cliFile, options.version)),
    ...documentPages(readDocument),
    ...linkPages(),
  ]
  const { maxBodyBytes, tls } = options
  const guarded = { policies, openSockets, tls }
  const app = createApp({ routes, pages, access, fleet, maxBodyBytes, ...guarded, metrics, log })
  return {
    app,
    routes,
    upgrades,
    consoles,
    get document() {
      return readDocument()
    },
  }
}
