import type { Logger } from 'pino'
import type { PeriodicTasks } from '../../shared/async/periodic-tasks.js'
import type { TimeFormat } from '../../shared/time.js'
import type { Access } from '../callers.js'
import type { BackupTargets } from '../backups/targets.js'
import type { CustomImages } from '../images/custom-images.js'
import type { Webhooks } from '../webhooks/webhooks.js'
import type { Balancing } from '../balancing/balancing.js'
import type { Drains } from '../drains/drains.js'
import type { FencingConfig } from '../fencing/fence-host.js'
import type { Maintenance } from '../maintenance/maintenance.js'
import type { EventHub } from '../events/hub.js'
import type { Fleet } from '../fleet/contract.js'
import { createGuestPages } from './guests/guest-pages.js'
import type { Route } from '../http/route.js'
import { addressRoutes } from './network/addresses.js'
import { backupRoutes } from './backups/backups.js'
import { keptBackupRoutes } from './backups/kept.js'
import { backupTargetRoutes } from './backups/targets.js'
import type { AccessPolicies } from '../policy/access-policy.js'
import type { PanelSettings } from '../settings/panel-settings.js'
import { PublicUrl } from '../settings/public-url.js'
import type { Tls } from '../tls/tls.js'
import type { FleetUpgrades } from '../upgrades/fleet-upgrades.js'
import type { Gateways } from '../gateways/gateways.js'
import { accessPolicyRoutes } from './access/access-policy.js'
import { sslRoutes } from './access/ssl.js'
import { publicUrlRoutes } from './access/public-url.js'
import { brandingRoutes } from './access/branding.js'
import { panelSettingRoutes } from './access/panel-settings.js'
import { apiKeyRoutes } from './access/api-keys.js'
import { cliLoginRoutes } from './access/cli-logins.js'
import { auditLogRoutes } from './access/audit-logs.js'
import { subUserLoginRoutes } from './sub-users/sub-user-login.js'
import { subUserLogRoutes } from './sub-users/sub-user-logs.js'
import { viewRoutes } from './sub-users/view.js'
import { subUserRoutes } from './sub-users/sub-users.js'
import { batchRoutes } from './guests/batches.js'
import { connectionRoute } from './connection/connection.js'
import { containerWriteRoutes } from './guests/container-writes.js'
import { containerRoutes } from './guests/containers.js'
import { eventRoutes } from './events/events.js'
import { firewallRoutes } from './network/firewall.js'
import { historyRoutes } from './history/history.js'
import { oldCopyRoutes } from './hosts/old-copies.js'
import { standbyRoutes } from './guests/standby.js'
import { evacuateRoute } from './hosts/evacuate.js'
import { drainRoutes } from './hosts/drain.js'
import { fleetCaRoutes } from './hosts/fleet-ca.js'
import { fleetUpgradeRoutes } from './hosts/fleet-upgrade.js'
import { gatewayRoutes } from './hosts/gateways.js'
import { hostRoutes } from './hosts/hosts.js'
import { maintenanceRoutes } from './hosts/maintenance.js'
import { hostUpgradeRoute } from './hosts/upgrade.js'
import { limitRoutes } from './guests/limits.js'
import { overviewRoutes } from './hosts/overview.js'
import { portMappingRoutes } from './network/port-mappings.js'
import { portSettingRoutes } from './network/port-settings.js'
import { routingRoutes } from './network/routing.js'
import { exportRoute } from './guests/export.js'
import { importRoute } from './guests/import/import-route.js'
import { suspensionRoutes } from './guests/suspension.js'
import { screenshotRoute } from './guests/screenshot.js'
import { timelineRoute } from './guests/timeline.js'
import { snapshotRoutes } from './guests/snapshots.js'
import { scheduleListRoute } from './schedules/schedules.js'
import { swapRoutes } from './hosts/swap.js'
import { versionRoute } from './hosts/version.js'
import { balanceRoutes } from './hosts/balance.js'
import type { GuestTrend } from '../usage/guest-trend.js'
import { fleetUsageRoute } from './usage/fleet-usage.js'
import { guestUsageRoute } from './usage/guest-usage.js'
import { taskRoutes } from './tasks/tasks.js'
import { customImageRoutes } from './images/custom-images.js'
import { imageWriteRoutes } from './images/image-writes.js'
import { imageRoutes } from './images/images.js'
import { templateRoutes } from './images/templates.js'
import { deviceRoutes } from './guests/devices.js'
import { undoDeleteRoutes } from './guests/undo-delete.js'
import { labelRoute } from './guests/labels.js'
import { securityReadRoutes } from './security/alerts.js'
import { securityLogRoute } from './security/logs.js'
import { guestSecurityRoutes } from './security/guest-security.js'
import { securityWriteRoutes } from './security/security-settings.js'
import { trafficRoutes } from './network/traffic.js'
import { adminRoutes } from './accounts/admins.js'
import { loginRoutes } from './accounts/login.js'
import { loginLogRoutes } from './accounts/login-logs.js'
import { loginSettingRoutes } from './accounts/login-settings.js'
import { setupRoutes } from './accounts/setup.js'
import { ownAccountRoutes } from './accounts/own-account.js'
import { passkeyConfirmRoutes } from './accounts/passkey-confirm.js'
import { passkeyLoginRoutes } from './accounts/passkey-login.js'
import { passkeyRoutes } from './accounts/passkeys.js'
import { sshKeyRoutes } from './accounts/ssh-keys.js'
import { twoFactorRoutes } from './accounts/two-factor.js'
import { webhookRoutes } from './webhooks/webhooks.js'

/** The parts of the gateway that routes use. */
export interface RouteParts {
  readonly fleet: Fleet
  readonly access: Access
  readonly backupTargets: BackupTargets
  readonly customImages: CustomImages
  readonly upkeep: PeriodicTasks
  readonly guestTrend: GuestTrend
  readonly events: EventHub
  readonly webhooks: Webhooks
  readonly fleetUpgrades: FleetUpgrades
  readonly drains: Drains
  readonly balancing: Balancing
  readonly fencing: FencingConfig
  readonly maintenance: Maintenance
  readonly gateways: Gateways
  readonly time: TimeFormat
  readonly policies: AccessPolicies
  readonly settings: PanelSettings
  readonly tls: Tls
  readonly version: string
  readonly log: Logger
  /** Returns the present time in ms since 1970. Default: the system clock. */
  readonly now?: () => number
}

/** Returns the routes of all operations, except for those that need the consoles or the list of routes. */
export function allRoutes(parts: RouteParts): Route[] {
  const { fleet, access, time, policies, settings, upkeep, tls, events, webhooks, ...more } = parts
  const { view } = fleet
  const creation = { fleet, time, settings, subUsers: access.subUsers, targets: more.backupTargets }
  const backups = { fleet, targets: more.backupTargets, subUsers: access.subUsers, time, upkeep }
  const pages = createGuestPages({ view, time, readOwners: () => access.subUsers.owners.read() })
  const publicUrl = new PublicUrl(settings, tls)
  const passkeys = { accounts: access.accounts, time, brand: settings.brand, publicUrl }
  return [
    ...overviewRoutes({ view, time }),
    fleetUsageRoute(fleet, more.guestTrend),
    ...balanceRoutes({ fleet, balancing: more.balancing, time }),
    guestUsageRoute(fleet),
    versionRoute(more.version),
    ...containerRoutes({ fleet, pages }),
    screenshotRoute(fleet),
    exportRoute({ fleet, audit: access.audit }),
    connectionRoute(fleet),
    timelineRoute({ view, audit: access.audit, time, now: more.now ?? Date.now }),
    ...containerWriteRoutes(creation),
    importRoute(creation),
    ...undoDeleteRoutes({ fleet, settings }),
    ...batchRoutes(creation),
    ...snapshotRoutes({ fleet, time }),
    ...backupRoutes(backups),
    ...backupTargetRoutes(backups),
    scheduleListRoute({ view, targets: more.backupTargets, time }),
    ...keptBackupRoutes(backups),
    ...portMappingRoutes(fleet),
    ...portSettingRoutes(fleet),
    ...firewallRoutes(fleet),
    ...limitRoutes({ fleet, time }),
    ...standbyRoutes({ fleet, time }),
    ...suspensionRoutes({ fleet, time }),
    ...trafficRoutes(fleet),
    ...routingRoutes(fleet),
    ...addressRoutes(fleet),
    ...taskRoutes({ fleet, time }),
    ...hostRoutes({ fleet, drains: more.drains, time }),
    hostUpgradeRoute({ fleet, time }),
    ...gatewayRoutes({ gateways: more.gateways, time }),
    ...fleetCaRoutes({ fleet, time }),
    ...fleetUpgradeRoutes({ fleet, fleetUpgrades: more.fleetUpgrades, time }),
    ...drainRoutes({ fleet, drains: more.drains, time }),
    evacuateRoute({ ...more, fleet, time }),
    ...oldCopyRoutes(fleet),
    ...maintenanceRoutes({ fleet, maintenance: more.maintenance, time }),
    ...swapRoutes(fleet),
    ...historyRoutes({ fleet, time }),
    ...templateRoutes({ view }),
    ...imageRoutes(view),
    ...imageWriteRoutes(fleet),
    ...customImageRoutes({ fleet, customImages: more.customImages }),
    ...apiKeyRoutes({ keys: access.keys, time }),
    ...cliLoginRoutes({ keys: access.keys, logins: access.cliLogins, time }),
    ...auditLogRoutes({ audit: access.audit, time }),
    ...subUserRoutes({
      subUsers: access.subUsers,
      logins: access.accounts.loginLog,
      view,
      time,
      linkOf: (code) => publicUrl.link(`/u/${code}`),
    }),
    ...subUserLoginRoutes(access),
    ...subUserLogRoutes({ ...access, time }),
    ...viewRoutes(access),
    ...loginLogRoutes({ accounts: access.accounts, time }),
    ...accessPolicyRoutes(policies),
    ...panelSettingRoutes(settings),
    ...brandingRoutes(settings),
    ...publicUrlRoutes({ settings, publicUrl }),
    ...loginRoutes(access.accounts),
    ...setupRoutes(access.accounts, access.audit),
    ...ownAccountRoutes({ accounts: access.accounts, time }),
    ...sshKeyRoutes({ accounts: access.accounts, time }),
    ...twoFactorRoutes({ accounts: access.accounts, brand: settings.brand }),
    ...passkeyRoutes(passkeys),
    ...passkeyLoginRoutes(passkeys),
    ...passkeyConfirmRoutes(passkeys),
    ...adminRoutes({ accounts: access.accounts, time, publicUrl }),
    ...loginSettingRoutes(access.accounts.settings),
    ...sslRoutes({ tls, time }),
    ...securityReadRoutes({ fleet, time }),
    securityLogRoute({ fleet, time }),
    ...securityWriteRoutes({ fleet, time }),
    ...guestSecurityRoutes(fleet),
    ...deviceRoutes(fleet),
    labelRoute(fleet),
    ...eventRoutes(events),
    ...webhookRoutes({ webhooks, time }),
  ]
}
