import type Koa from 'koa'
import type { Logger } from 'pino'
import type { TimeFormat } from '../../shared/time.js'
import type { Access } from '../access/access.js'
import type { BackupTargets } from '../backups/targets.js'
import type { Fleet } from '../fleet/contract.js'
import { createMetrics } from '../metrics.js'
import { createApp } from '../http/app.js'
import { documentPages } from '../http/docs.js'
import { createGuestPages } from './guests/guest-pages.js'
import { healthPages, type MetricsReaders } from '../http/health.js'
import { buildOpenApi } from '../http/openapi.js'
import type { Route } from '../http/route.js'
import { addressRoutes } from './network/addresses.js'
import { backupRoutes } from './backups/backups.js'
import { keptBackupRoutes } from './backups/kept.js'
import { backupTargetRoutes } from './backups/targets.js'
import type { AccessPolicies } from '../policy/access-policy.js'
import type { PanelSettings } from '../panel-settings.js'
import { accessPolicyRoutes } from './access/access-policy.js'
import { panelSettingRoutes } from './access/panel-settings.js'
import { apiKeyRoutes } from './access/api-keys.js'
import { auditLogRoutes } from './access/audit-logs.js'
import { batchRoutes } from './guests/batches.js'
import { containerWriteRoutes } from './guests/container-writes.js'
import { containerRoutes } from './guests/containers.js'
import { firewallRoutes } from './network/firewall.js'
import { historyRoutes } from './history/history.js'
import { hostRoutes } from './hosts/hosts.js'
import { limitRoutes } from './guests/limits.js'
import { overviewRoutes } from './hosts/overview.js'
import { portMappingRoutes } from './network/port-mappings.js'
import { routingRoutes } from './network/routing.js'
import { snapshotRoutes } from './guests/snapshots.js'
import { swapRoutes } from './hosts/swap.js'
import { taskRoutes } from './tasks/tasks.js'
import { customImageRoutes } from './images/custom-images.js'
import { imageWriteRoutes } from './images/image-writes.js'
import { imageRoutes } from './images/images.js'
import { templateRoutes } from './images/templates.js'
import { trafficRoutes } from './network/traffic.js'
import { tagTexts } from './tags.js'
import { unsupportedRoutes } from './unsupported.js'

export interface ApiOptions {
  readonly fleet: Fleet
  readonly access: Access
  readonly backupTargets: BackupTargets
  readonly time: TimeFormat
  readonly maxBodyBytes: number
  readonly policies: AccessPolicies
  readonly settings: PanelSettings
  readonly metricsFor: MetricsReaders
  readonly version: string
  readonly log: Logger
  /** Whether shutdown has begun. */
  isClosing(): boolean
}

export interface Api {
  readonly app: Koa
  readonly routes: readonly Route[]
  /** OpenAPI 3.1. */
  readonly document: object
}

/** Makes the whole HTTP interface from its parts. */
export function createApi(options: ApiOptions): Api {
  const { fleet, access, log } = options
  const routes = allRoutes(options)
  const document = buildOpenApi(routes, { version: options.version, tags: tagTexts })
  const metrics = createMetrics(fleet.view, access.health)
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
    ...documentPages(document),
  ]
  const { maxBodyBytes, policies } = options
  const app = createApp({ routes, pages, access, fleet, maxBodyBytes, policies, metrics, log })
  return { app, routes, document }
}

/** The table. */
function allRoutes({ fleet, access, time, policies, settings, backupTargets: targets }: ApiOptions): Route[] {
  const { view } = fleet
  const pages = createGuestPages(view, time)
  return [
    ...overviewRoutes({ view, time }),
    ...containerRoutes({ fleet, pages }),
    ...containerWriteRoutes({ fleet, time }),
    ...batchRoutes({ fleet, time }),
    ...snapshotRoutes({ fleet, time }),
    ...backupRoutes({ fleet, targets, time }),
    ...backupTargetRoutes({ fleet, targets, time }),
    ...keptBackupRoutes({ fleet, targets, time }),
    ...portMappingRoutes(fleet),
    ...firewallRoutes(fleet),
    ...limitRoutes({ fleet, time }),
    ...trafficRoutes(fleet),
    ...routingRoutes(fleet),
    ...addressRoutes(fleet),
    ...taskRoutes({ fleet, time }),
    ...hostRoutes({ fleet, time }),
    ...swapRoutes(fleet),
    ...historyRoutes({ fleet, time }),
    ...templateRoutes({ view }),
    ...imageRoutes(view),
    ...imageWriteRoutes(fleet),
    ...customImageRoutes(fleet),
    ...apiKeyRoutes({ keys: access.keys, time }),
    ...auditLogRoutes({ audit: access.audit, time }),
    ...accessPolicyRoutes(policies),
    ...panelSettingRoutes(settings),
    ...unsupportedRoutes(),
  ]
}
